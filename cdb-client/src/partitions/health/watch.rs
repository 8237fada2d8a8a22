//! A request under way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::breakers::PartitionHealth;
use super::circuit::{Class, FIRST, LONGEST, SILENT_BEFORE};
use super::endpoints::RangeEndpoints;
use super::signal::Signal;
use super::stall::note_stall;
use super::unanswered::UnansweredId;
use crate::error::{ResponseStatus, Result};
use crate::partitions::ranges::PhysicalPartitionId;

/// A request under way. Dropping it counts as a failure of the partition after a while without an
/// answer.
pub(crate) struct Watch<'a> {
    health: &'a PartitionHealth,
    range: PhysicalPartitionId,
    class: Class,
    is_over: bool,
    can_fail_over: bool,
    attempts: Mutex<Attempts>,
}

impl PartitionHealth {
    /// Watches a request that is about to be sent. `can_fail_over` says that its partition may move
    /// to another region alone.
    pub(crate) fn watch(
        &self,
        range: PhysicalPartitionId,
        class: Class,
        can_fail_over: bool,
    ) -> Watch<'_> {
        let now = Instant::now();
        Watch {
            health: self,
            range,
            class,
            is_over: false,
            can_fail_over,
            attempts: Mutex::new(Attempts {
                sent_at: now,
                last_at: now,
                unanswered: None,
                refused_since: None,
                endpoint: None,
                is_answered: false,
            }),
        }
    }
}

/// The attempts of a request since its last answer.
#[derive(Clone)]
struct Attempts {
    /// The time of the first attempt since the last answer.
    sent_at: Instant,
    /// The time of the last attempt.
    last_at: Instant,
    /// A write without an answer.
    unanswered: Option<UnansweredId>,
    /// The first of the last answers, if these were all refusals: 429, or that of an unavailable partition.
    refused_since: Option<Instant>,
    /// The endpoint of the last attempt.
    endpoint: Option<Arc<str>>,
    /// Whether the partition has answered, and the request waits before its next attempt.
    is_answered: bool,
}

impl Watch<'_> {
    /// Returns the regions of the partition.
    pub(crate) fn endpoints(&self) -> RangeEndpoints {
        let known = self.health.endpoints();
        known.get(&self.range).cloned().unwrap_or_default()
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where the next attempt goes.
    pub(crate) fn sent_to(&self, endpoint: &Arc<str>) {
        let mut attempts = self.attempts();
        attempts.endpoint = Some(endpoint.clone());
        attempts.last_at = Instant::now();
        if std::mem::take(&mut attempts.is_answered) {
            attempts.sent_at = attempts.last_at;
        }
        if self.class == Class::Writes && attempts.unanswered.is_none() {
            attempts.unanswered = self.health.sent(&self.range, attempts.last_at);
        }
    }

    /// Notes that no write of the request is without an answer.
    fn has_no_unanswered(&self) {
        if let Some(unanswered) = self.attempts().unanswered.take() {
            self.health.answered_or_dropped(&self.range, unanswered);
        }
    }

    /// Notes that the partition has answered an attempt, which the request may repeat after a wait. The
    /// work behind a request that an unavailable partition refuses waits as behind one that is throttled.
    pub(crate) fn answered(&self, status: ResponseStatus) {
        self.has_no_unanswered();
        if Signal::of_status(status) == Signal::Failure {
            // One that can fail over goes on in another region instead.
            if self.can_fail_over {
                return;
            }
            self.attempts()
                .refused_since
                .get_or_insert_with(Instant::now);
            note_stall(self.class, true);
        } else {
            self.note(Signal::of_status(status));
            self.attempts().is_answered = true;
        }
    }

    /// Notes which region has the writes of the partition; `None` for the account's write region.
    /// As in azure_data_cosmos_driver (PARTITION_LEVEL_FAILOVER_SPEC.md 6.4), an answer proves that,
    /// and only another region's answer ends it: the service decides, so nothing expires.
    pub(crate) fn writes_are_at(&self, endpoint: Option<&Arc<str>>) {
        let mut known = self.health.endpoints();
        if endpoint.is_none() && !known.contains_key(&self.range) {
            return;
        }
        let range = known.entry(self.range.clone()).or_default();
        if range.writes.as_ref() != endpoint {
            tracing::info!(range = %self.range, endpoint = endpoint.map(|it| &**it), "the writes of a physical partition moved");
        }
        range.writes = endpoint.cloned();
        let answered = self.attempts();
        range
            .silent
            .take_if(|(silent, _)| Some(&*silent) == answered.endpoint.as_ref());
        if *range == RangeEndpoints::default() {
            known.remove(&self.range);
        }
    }

    /// Notes the end of the request.
    pub(crate) fn ended<T>(mut self, result: &Result<T>) {
        self.is_over = true;
        self.note(result.as_ref().map_or_else(Signal::of, |_| Signal::Answer));
    }

    fn note(&self, signal: Signal) {
        let now = Instant::now();
        let is_throttled = signal == Signal::Throttled;
        let (attempts, refused_since) = {
            let mut attempts = self.attempts();
            let since = attempts.refused_since;
            attempts.refused_since = is_throttled.then(|| since.unwrap_or(now));
            (attempts.clone(), since)
        };
        // A trial of a partition that can fail over asks another region first, and ends at once
        // after the move.
        let longest = if self.can_fail_over { FIRST } else { LONGEST };
        let took = now - attempts.last_at;
        match signal {
            Signal::Answer | Signal::Throttled => {
                let (range, class) = (&self.range, self.class);
                self.health
                    .answered(range, class, took, is_throttled, refused_since);
            }
            Signal::Failure => {
                self.health.failed(&self.range, attempts.sent_at, longest);
                if let Some(since) = refused_since {
                    self.health
                        .refused_for(&self.range, self.class, now - since);
                }
            }
            Signal::Nothing => {}
        }
        if let Some(endpoint) = attempts.endpoint
            && self.can_fail_over
            && signal == Signal::Failure
        {
            let mut known = self.health.endpoints();
            let range = known.entry(self.range.clone()).or_default();
            range.silent = Some((endpoint, Instant::now()));
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.has_no_unanswered();
        let patience = self.health.patience(&self.range, self.class);
        let is_silent = {
            let attempts = self.attempts();
            !attempts.is_answered && attempts.sent_at.elapsed() + SILENT_BEFORE >= patience
        };
        if !self.is_over && is_silent {
            self.note(Signal::Failure);
        }
    }
}
