//! The intents that this process delivers, and the targets that do not answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cdb_client::partitions::PhysicalPartitionId;
use cdb_coordination::outbox::Dispatcher;
use cdb_coordination::search::Windows;
use cdb_model::operation::BatchError;
use cdb_model::{Batch, Document, Stored};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::CosmosDBProviderConfig;
use crate::stored::documents::{Durable, OutboxIntent};
use crate::timing::{MAX_TARGET_BACKOFF, MIN_TARGET_BACKOFF};

/// The delivery of messages that turns commit for other instances.
#[derive(Default)]
pub(crate) struct Delivery {
    pub(crate) outbox: Outbox,
    pub(crate) windows: Windows<PhysicalPartitionId>,
    searches: AtomicUsize,
    pub(crate) backoff: Backoff,
    /// The age at which the reconciler delivers an undelivered intent.
    pub(crate) reconciler_age: Duration,
    pub(crate) reconciler_interval: Duration,
}

impl Delivery {
    pub(crate) fn new(config: &CosmosDBProviderConfig) -> Self {
        Self {
            reconciler_age: config.reconciler_age_threshold,
            reconciler_interval: config.reconciler_interval,
            ..Self::default()
        }
    }

    /// Lets each search begin with another partition.
    pub(crate) fn rotate(&self, ranges: &mut [PhysicalPartitionId]) {
        let searches = self.searches.fetch_add(1, Ordering::Relaxed);
        let first = searches % ranges.len().max(1);
        ranges.rotate_left(first);
    }
}

/// The outbox of this process.
pub(crate) type Outbox = Dispatcher<Intent>;

/// An intent to deliver.
#[derive(Debug)]
pub(crate) enum Intent {
    /// An intent that this process has just committed.
    Fresh(OutboxIntent),
    /// An intent that the reconciler has found.
    Found(Stored<OutboxIntent>),
}

impl Intent {
    pub(crate) fn document(&self) -> &OutboxIntent {
        match self {
            Self::Fresh(intent) => intent,
            Self::Found(stored) => &stored.document,
        }
    }

    /// Adds the deletion of the intent. A found one is deleted by its stored id, which differs in
    /// containers of `duroxide-cdb`.
    pub(crate) fn add_delete(&self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        match self {
            Self::Fresh(intent) => batch.add(intent.key().delete()),
            Self::Found(stored) => batch.add(stored.delete()),
        }
        .map(drop)
    }
}

/// The most targets with a backoff. Beyond them, failing targets are retried in every round.
const MAX_TARGETS: usize = 10_000;

/// The targets whose last delivery failed because the service was unavailable. Refused intents are
/// not among them: those are postponed in the container.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failing: Mutex<HashMap<String, Failing>>,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    backoff: Duration,
    retry_at: Instant,
}

impl Backoff {
    /// Returns whether the backoff of a target has not ended.
    pub(crate) fn is_waiting(&self, target: &str) -> bool {
        let failing = self.failing.lock();
        let state = failing.get(target);
        state.is_some_and(|state| state.retry_at > Instant::now())
    }

    /// Ends the backoff of a target.
    pub(crate) fn note_success(&self, target: &str) {
        self.failing.lock().remove(target);
    }

    /// Starts the backoff of a target. Concurrent failures count once.
    pub(crate) fn note_failure(&self, target: &str) {
        let (mut failing, now) = (self.failing.lock(), Instant::now());
        let before = failing.get(target).copied();
        if before.is_some_and(|state| state.retry_at > now) {
            return;
        }
        if before.is_none() && failing.len() >= MAX_TARGETS {
            failing.retain(|_, state| state.retry_at + MAX_TARGET_BACKOFF > now);
            if failing.len() >= MAX_TARGETS {
                return;
            }
        }
        let backoff = before.map_or(MIN_TARGET_BACKOFF, |state| {
            (state.backoff * 2).min(MAX_TARGET_BACKOFF)
        });
        let retry_at = now + backoff;
        failing.insert(target.to_owned(), Failing { backoff, retry_at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_backoff_doubles_up_to_the_longest_and_ends_with_a_success() {
        let targets = Backoff::default();
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            targets.note_failure("target");
            targets.note_failure("target");
            tokio::time::advance(Duration::from_millis(seconds * 1000 - 1)).await;
            assert!(targets.is_waiting("target") && !targets.is_waiting("other"));
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(!targets.is_waiting("target"));
        }
        targets.note_failure("target");
        targets.note_success("target");
        assert!(!targets.is_waiting("target"));
        targets.note_failure("target");
        tokio::time::advance(MIN_TARGET_BACKOFF).await;
        assert!(!targets.is_waiting("target"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_targets_is_bounded() {
        let targets = Backoff::default();
        for number in 0..MAX_TARGETS {
            targets.note_failure(&number.to_string());
        }
        targets.note_failure("late");
        assert!(!targets.is_waiting("late"));
        tokio::time::advance(MIN_TARGET_BACKOFF + MAX_TARGET_BACKOFF).await;
        targets.note_failure("late");
        assert!(targets.is_waiting("late"));
        assert_eq!(targets.failing.lock().len(), 1);
    }
}
