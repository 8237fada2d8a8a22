//! The metrics of change-feed processors. Durations are in seconds.

use std::time::Duration;

use cdb_client::FeedRow;
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

    /// A page was read: the lag is the age of its first change.
    pub(super) fn read<C>(&self, rows: &[FeedRow<C>], now: Timestamp) {
        self.lag.set(lag(rows, now).as_secs_f64());
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

/// Returns the age of the oldest of the next changes; zero if there is none.
pub(super) fn lag<C>(rows: &[FeedRow<C>], now: Timestamp) -> Duration {
    let oldest = rows.iter().map(FeedRow::timestamp).min();
    oldest.map_or(Duration::ZERO, |oldest| now.since(oldest))
}
