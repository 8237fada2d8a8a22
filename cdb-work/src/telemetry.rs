//! The metrics of the coordinator.
//!
//! Streams and message ids are not labels: their number is unlimited.

use std::time::Duration;

use cdb_model::Timestamp;
use metrics::{counter, gauge, histogram};

use super::documents::WorkMessage;

/// Counts events of one kind.
pub(super) fn count(event: &'static str, count: usize) {
    counter!(event).increment(count as u64);
}

/// How many partitions are held, and how many should be.
pub(super) fn partitions(held: usize, wanted: usize) {
    gauge!("cdb.work.partitions.held").set(small(held));
    gauge!("cdb.work.partitions.wanted").set(small(wanted));
}

/// A change of a partition's lease: `claimed`, `renewed`, `released` or `lost`.
pub(super) fn lease(event: &'static str) {
    counter!("cdb.work.leases", "event" => event).increment(1);
}

/// The time that a lease had left when it was renewed. Near zero, leases are about to be lost.
pub(super) fn lease_left(left: Duration) {
    histogram!("cdb.work.lease.left").record(left.as_secs_f64());
}

/// A batch was written.
pub(super) fn flushed(entries: usize, elapsed: Duration) {
    histogram!("cdb.work.flush.size").record(small(entries));
    histogram!("cdb.work.flush.duration").record(elapsed.as_secs_f64());
}

/// A message was claimed.
pub(super) fn claimed(message: &WorkMessage, now: Timestamp) {
    let lane = message.lane.as_str();
    counter!("cdb.work.claimed", "lane" => lane).increment(1);
    let due = message.waiting_since.unwrap_or(now).max(message.due_at);
    histogram!("cdb.work.queue.age", "lane" => lane).record(now.since(due).as_secs_f64());
}

/// Messages were stored.
pub(super) const STORED: &str = "cdb.work.stored";

/// A duplicate of a stored message arrived.
pub(super) const DUPLICATE: &str = "cdb.work.duplicates";

/// A message was completed, failed or set aside.
pub(super) fn ended(outcome: &'static str) {
    counter!("cdb.work.ended", "outcome" => outcome).increment(1);
}

/// A claim ended because its message was not reported in time.
pub(super) const CLAIM_TIMEOUT: &str = "cdb.work.claim.timeouts";

/// The store refused to complete a message before its turn. Always zero, unless this crate has a
/// bug or another program has changed a document.
pub(super) const ORDER_VIOLATION: &str = "cdb.work.order.violations";

/// An unreadable document was skipped.
pub(super) const UNREADABLE: &str = "cdb.work.unreadable";

/// Entries were lost: their strategy or coordinator was dropped before they were written.
pub(super) const UNFLUSHED: &str = "cdb.work.unflushed";

fn small(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
