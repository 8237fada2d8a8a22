//! The metrics of change-feed processors. Durations are in seconds.

use std::time::Duration;

use cdb_client::feed::ChangeRow;
use cdb_model::Timestamp;
use metrics::{Counter, Gauge, counter, gauge};

/// The metrics of one part of a feed.
pub(super) struct PartMetrics {
    lag: Gauge,
    changes: Counter,
    failures: Counter,
}

impl PartMetrics {
    pub(super) fn new(processor: &str, part: &str) -> Self {
        let (processor, part) = (processor.to_owned(), part.to_owned());
        Self {
            lag: gauge!("cdb.change_feed.lag", "processor" => processor.clone(), "part" => part),
            changes: counter!("cdb.change_feed.changes", "processor" => processor.clone()),
            failures: counter!("cdb.change_feed.failures", "processor" => processor),
        }
    }

    /// Sets the age of the oldest change that is not handled.
    pub(super) fn set_lag(&self, lag: Duration) {
        self.lag.set(lag.as_secs_f64());
    }

    /// Changes were handled, and the position after them is stored.
    pub(super) fn handled(&self, changes: usize) {
        self.changes
            .increment(u64::try_from(changes).unwrap_or(u64::MAX));
    }

    /// A read or a handler has failed.
    pub(super) fn failed(&self) {
        self.failures.increment(1);
    }
}

impl Drop for PartMetrics {
    /// This process does not read the part any more, so its lag is that of another one.
    fn drop(&mut self) {
        self.set_lag(Duration::ZERO);
    }
}

/// Returns the time of the oldest change; `None` if there is none.
pub(super) fn oldest<C, R: ChangeRow<C>>(rows: &[R]) -> Option<Timestamp> {
    rows.iter().map(R::timestamp).min()
}
