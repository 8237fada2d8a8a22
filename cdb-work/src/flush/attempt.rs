//! The attempts at a message: started, failed without a report, renewed.
//!
//! The first hand-out of a message costs no write. If its process ends, the next owner of the
//! partition finds the message among those that the former owner may have handed out. From then on,
//! and after every failure, the start of an attempt is stored before the message is handed out. An
//! owner that finds a start under an older fence counts that attempt as failed. So a message that
//! ends its process each time runs out of attempts too.
//!
//! Such a message is a suspect: it may have ended the process, or another message did. A coordinator
//! hands out one suspect at a time, until its result is stored or 30 s have passed. So a message that
//! soon ends its process costs the others two attempts at most, and a slow one delays them little.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::entry::ClaimedWork;
use crate::error::WorkError;
use crate::memory::inner::{Inner, Unwritten};
use crate::memory::queue::{NotedReport, Pending, extract};
use crate::memory::settlement::Receipt;
use crate::memory::state::{State, later};
use crate::streams::claim::Claim;
use crate::streams::stream::{Change, ClaimState};
use crate::telemetry;

/// The failure of an attempt whose claim was dropped.
const DROPPED: &str =
    "the claim was dropped without a report; its handler panicked or was cancelled";

/// A message to hand out, and whether the start of the attempt is stored first.
pub(crate) struct HandOut {
    pub(crate) claimed: ClaimedWork,
    pub(crate) store_start: bool,
}

impl Inner {
    /// Stores the starts of attempts, and returns the messages that can be handed out.
    pub(crate) async fn start(&self, handed_out: Vec<HandOut>) -> Vec<ClaimedWork> {
        let mut places = Vec::new();
        let mut starting = Vec::with_capacity(handed_out.len());
        for HandOut {
            claimed,
            store_start,
        } in handed_out
        {
            let receipt = store_start.then(|| {
                let (place, receipt) = self.state().push_report(NotedReport {
                    claim: claimed.guard.claim.clone(),
                    change: Change::Start,
                    message: claimed.message.clone(),
                    effects: None,
                });
                places.push(place);
                receipt
            });
            starting.push((claimed, receipt));
        }
        // The upkeep tries a partition that does not answer.
        self.write_own_entries(|partition| !self.is_silent(partition))
            .await;
        let mut silent = BTreeSet::new();
        if !places.is_empty() {
            silent = self.write_starts(places).await;
        }
        let mut started = Vec::with_capacity(starting.len());
        for (mut claimed, receipt) in starting {
            let is_unstarted = receipt.is_some() && silent.contains(&claimed.guard.claim.partition);
            if !is_unstarted && self.note_start(&claimed, receipt).await == ClaimState::Valid {
                claimed.guard.is_delivered = true;
                started.push(claimed);
            }
        }
        started
    }

    async fn note_start(&self, claimed: &ClaimedWork, receipt: Option<Receipt>) -> ClaimState {
        let Some(receipt) = receipt else {
            return ClaimState::Valid;
        };
        if let Err(error) = receipt.settled().await {
            tracing::debug!(%error, "the start of an attempt was not stored");
            return ClaimState::Void;
        }
        let claim = &claimed.guard.claim;
        self.with_streams(claim, |streams| streams.started(claim.in_stream()))
    }

    /// Lets a claim last for another time-out.
    pub(crate) fn renew(&self, claim: &Claim) -> ClaimState {
        let until = later(self.config.claim_timeout);
        self.with_streams(claim, |streams| streams.renew(claim.in_stream(), until))
    }

    /// Counts the attempt of a dropped claim as failed. A claim that was not handed out, or is
    /// dropped after the shutdown, is returned.
    pub(crate) fn drop_claim(&self, claim: &Claim, is_delivered: bool) {
        if is_delivered && !self.stop.is_cancelled() {
            let mut state = self.state();
            self.fail_attempt(&mut state, claim, DROPPED.to_owned());
            drop(state);
            self.news.notify_waiters();
        } else {
            self.give_back(claim);
        }
    }

    /// Notes the failure of an attempt without a report, unless the claim is void.
    pub(crate) fn fail_attempt(&self, state: &mut State, claim: &Claim, reason: String) {
        let now = self.container.now();
        let noted = state.owned_under(claim).and_then(|owned| {
            let judge = |message: &_| self.config.judge(message, now);
            owned.streams.failed(claim.in_stream(), reason, judge)
        });
        if let Some((change, message)) = noted {
            push_own(state, claim.clone(), change, message);
        }
    }

    /// Counts the attempts of claims that have timed out as failed.
    pub(crate) fn fail_timed_out(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let mut over = Vec::new();
        for (partition, owned) in state.owned() {
            let fence = owned.fence;
            let timed_out = owned.streams.timed_out(now).into_iter();
            over.extend(timed_out.map(|place| (partition, fence, place)));
        }
        if over.is_empty() {
            return;
        }
        for (partition, fence, (key, sequence, epoch)) in over {
            let reason = format!(
                "no report within {:?}; renew the claim of a longer task",
                self.config.claim_timeout
            );
            let claim = Claim {
                owner: self.id.clone(),
                partition,
                fence,
                epoch,
                key,
                sequence,
                message_id: String::new(),
            };
            telemetry::claim_timeout();
            self.fail_attempt(&mut state, &claim, reason);
        }
        drop(state);
        self.news.notify_waiters();
    }

    /// Handles a report that the service rejected for good. Counts the attempt as failed, and fails the
    /// later reports of its stream, queued and in flight.
    pub(crate) fn fail_rejected(&self, claim: &Claim, reason: String, flight: &mut Vec<Pending>) {
        let is_later = |pending: &Pending| {
            let report = pending.report();
            report.is_some_and(|report| {
                report.claim.key == claim.key && report.claim.sequence >= claim.sequence
            })
        };
        let now = self.container.now();
        let mut void: Vec<Pending> = flight.extract_if(.., |pending| is_later(pending)).collect();
        let mut state = self.state();
        let held = state.partition(claim.partition);
        void.extend(extract(&mut held.queue, is_later));
        let noted = held.owned.as_mut().and_then(|owned| {
            let judge = |message: &_| self.config.judge(message, now);
            let streams = &mut owned.streams;
            streams.rejected(&claim.key, claim.sequence, reason, judge)
        });
        if let Some((change, message)) = noted {
            push_own(&mut state, claim.clone(), change, message);
        }
        drop(state);
        Self::fail_later(&claim.key, void);
        self.news.notify_waiters();
    }

    /// Writes the entries of these partitions that belong to no strategy. Entries that cannot be
    /// written are written later.
    pub(crate) async fn write_own_entries(&self, is_wanted: impl Fn(u16) -> bool) {
        let places = self.state().take_own_entries(is_wanted);
        let mut unwritten = Unwritten {
            inner: self,
            places,
        };
        match self.write_or_keep(&mut unwritten.places).await {
            // The client logs a partition that does not answer.
            Ok(()) | Err(WorkError::Unanswered { .. }) => {}
            Err(error) => {
                tracing::warn!(%error, "entries were not written; they are written later");
            }
        }
    }
}

/// Queues a report without a strategy.
fn push_own(
    state: &mut State,
    claim: Claim,
    change: Change,
    message: std::sync::Arc<crate::streams::documents::WorkMessage>,
) {
    let (place, _unheard) = state.push_report(NotedReport {
        claim,
        change,
        message,
        effects: None,
    });
    state.own_entries.insert(place);
}
