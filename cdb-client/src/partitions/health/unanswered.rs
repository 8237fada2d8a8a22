//! The writes to a partition that have no answer yet.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Identifies the work of a task in this process.
pub(super) type WorkId = u64;

/// Identifies a write without an answer: the time since when, and a number.
pub(super) type UnansweredId = (Instant, u64);

/// The writes without an answer, oldest first, each with the work that it belongs to.
#[derive(Clone, Debug, Default)]
pub(super) struct Unanswered(BTreeMap<UnansweredId, Option<WorkId>>);

impl Unanswered {
    pub(super) fn add(&mut self, id: UnansweredId, work: Option<WorkId>) {
        self.0.insert(id, work);
    }

    pub(super) fn remove(&mut self, id: UnansweredId) {
        self.0.remove(&id);
    }

    /// Returns for how long the oldest write has had no answer.
    pub(super) fn longest(&self, now: Instant) -> Option<Duration> {
        let ((since, _), _) = self.0.first_key_value()?;
        Some(now.saturating_duration_since(*since))
    }

    /// Returns since when the oldest write of this work has had no answer.
    pub(super) fn since(&self, work: WorkId) -> Option<Instant> {
        let mut oldest = self.0.iter().filter(|(_, of)| **of == Some(work));
        oldest.next().map(|((since, _), _)| *since)
    }
}
