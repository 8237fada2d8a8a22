//! The background task of a membership: joins, sends heartbeats, removes failed members, leaves.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::Container;
use cdb_model::container::MemberOf;
use metrics::{counter, gauge};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::config::MembershipConfig;
use super::document::MemberDocument;
use super::failed::FailedMember;
use super::failure_detector::{FailureDetector, Sighting, watched_by};
use super::roster::{Beat, Listed, Roster, RosterError};
use super::view::{MemberState, MembershipView};
use crate::timing::{LEAVE_TIMEOUT, MISSED_HEARTBEATS};

/// The channels to the users of a membership.
pub(super) struct Reports {
    pub(super) views: watch::Sender<MembershipView>,
    pub(super) failed: broadcast::Sender<FailedMember>,
}

pub(super) struct Heartbeat<C, D> {
    roster: Roster<C, D>,
    failures: FailureDetector,
    /// Failed members whose removal got no answer.
    unconfirmed: Vec<Sighting>,
    group: String,
    member: Arc<str>,
    period: Duration,
    reports: Reports,
    /// The time of the last successful heartbeat.
    reached: Option<Instant>,
}

impl<C: Container, D: MemberDocument + MemberOf<C>> Heartbeat<C, D> {
    pub(super) fn new(
        container: ContainerClient<C>,
        config: MembershipConfig,
        incarnation: &str,
        reports: Reports,
    ) -> Self {
        Self {
            failures: FailureDetector::default(),
            unconfirmed: Vec::new(),
            group: config.group.clone(),
            member: config.member.as_str().into(),
            period: config.period(),
            roster: Roster::new(container, config, incarnation),
            reports,
            reached: None,
        }
    }

    /// Runs until `stop` and then leaves, or until another process has replaced this member.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut failures = 0;
        loop {
            let begun = Instant::now();
            let outcome = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                outcome = self.step() => outcome,
            };
            match outcome {
                Ok(listed) => {
                    failures = 0;
                    self.succeeded(&listed);
                }
                Err(RosterError::Replaced) => return self.replaced(),
                Err(error) => {
                    failures += 1;
                    self.failed(&error);
                }
            }
            // Retries the first failure soon. After several failures the normal interval is enough.
            let pause = if failures == 1 {
                self.period / 4
            } else {
                self.period
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(begun + pause) => {}
            }
        }
        self.leave().await;
    }

    /// Joins, or sends one heartbeat.
    async fn step(&mut self) -> Result<Listed, RosterError> {
        if self.reached.is_none() {
            return self.roster.join().await;
        }
        let watched = watched_by(self.reports.views.borrow().members(), &self.member);
        let beat = tokio::time::timeout(self.period, self.roster.beat(&watched))
            .await
            .unwrap_or(Err(RosterError::Late));
        match beat {
            Ok(beat) => Ok(self.remove_failed(beat).await),
            Err(RosterError::Removed) => {
                tracing::warn!(group = %self.group, member = %self.member, "this member was removed because its heartbeats were late; it rejoins");
                self.roster.rejoin().await
            }
            Err(error) => Err(error),
        }
    }

    /// Removes failed members from the roster. After an error the next heartbeat tries again.
    async fn remove_failed(&mut self, beat: Beat) -> Listed {
        let Beat {
            listed,
            sightings,
            missing,
        } = beat;
        let removed = std::mem::take(&mut self.unconfirmed);
        self.report_failed(removed, &listed);
        let failed = self.failures.observe(sightings, Instant::now());
        if failed.is_empty() && missing.is_empty() {
            return listed;
        }
        // At most one interval, because this member sends no heartbeat during the wait.
        let removal = self.roster.remove(&listed, &failed, &missing);
        let removed = tokio::time::timeout(self.period, removal).await;
        let left = match removed.unwrap_or(Err(RosterError::Late)) {
            Ok(Some(left)) => left,
            // Another member was faster, or the member is alive.
            Ok(None) => return listed,
            Err(error) => {
                self.unconfirmed = failed;
                tracing::debug!(group = %self.group, %error, "failed members were not removed; the next heartbeat tries again");
                return listed;
            }
        };
        for member in listed.members.iter().filter(|name| !left.contains(name)) {
            tracing::warn!(group = %self.group, %member, "a failed member was removed; the others serve its slots");
            self.count("cdb.membership.removals", 1);
        }
        self.report_failed(failed, &left);
        left
    }

    /// Reports the failed members that are not on the roster any more.
    fn report_failed(&self, failed: Vec<Sighting>, listed: &Listed) {
        for Sighting {
            name, incarnation, ..
        } in failed
        {
            if let Some(incarnation) = incarnation.filter(|_| !listed.contains(&name)) {
                // Without a receiver, no user of the membership asks for failed members.
                let _receivers = self.reports.failed.send(FailedMember { name, incarnation });
            }
        }
    }

    fn succeeded(&mut self, listed: &Listed) {
        let now = Instant::now();
        let late = self
            .reached
            .replace(now)
            .is_some_and(|before| now - before > self.period * 3 / 2);
        self.count("cdb.membership.heartbeats", 1);
        self.count("cdb.membership.heartbeats_late", u64::from(late));
        self.publish(MemberState::Member, &listed.members);
    }

    fn failed(&mut self, error: &RosterError) {
        self.count("cdb.membership.heartbeats_failed", 1);
        tracing::warn!(group = %self.group, member = %self.member, %error, "a heartbeat failed");
        let unheard = self
            .reached
            .is_some_and(|at| at.elapsed() > self.period * MISSED_HEARTBEATS);
        if unheard {
            let members = self.reports.views.borrow().members().to_vec();
            self.publish(MemberState::Unheard, &members);
        }
    }

    fn replaced(&self) {
        tracing::error!(group = %self.group, member = %self.member, "another process has joined under this member's name and serves its slots; give each process a unique name");
        self.count("cdb.membership.replaced", 1);
        self.publish(MemberState::Replaced, &[]);
    }

    async fn leave(&mut self) {
        self.publish(MemberState::Left, &[]);
        let left = tokio::time::timeout(LEAVE_TIMEOUT, self.roster.leave()).await;
        if let Err(error) = left.unwrap_or(Err(RosterError::Late)) {
            tracing::debug!(group = %self.group, member = %self.member, %error, "leaving failed; the other members will remove this member");
        }
    }

    fn publish(&self, state: MemberState, members: &[String]) {
        let view = MembershipView::new(state, &self.member, members);
        let labels = [("group", self.group.clone())];
        let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
        gauge!("cdb.membership.members", &labels).set(f64::from(count));
        gauge!("cdb.membership.slots", &labels).set(f64::from(view.slots().len()));
        self.reports.views.send_if_modified(|seen| {
            if *seen == view {
                return false;
            }
            let moved =
                view.slots().missing_in(seen.slots()) + seen.slots().missing_in(view.slots());
            self.count("cdb.membership.slots_moved", u64::from(moved));
            *seen = view;
            true
        });
    }

    fn count(&self, name: &'static str, by: u64) {
        counter!(name, "group" => self.group.clone()).increment(by);
    }
}
