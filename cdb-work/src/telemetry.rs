//! The metrics of the coordinator.
//!
//! Streams and message ids are not labels: their number is unlimited.

use std::time::Duration;

use cdb_model::Timestamp;
use metrics::{counter, gauge, histogram};

use crate::streams::documents::{Lane, WorkMessage};

/// How many partitions are held, and how many should be.
pub(crate) fn partitions(held: usize, wanted: usize) {
    gauge!("cdb.work.partitions.held").set(small(held));
    gauge!("cdb.work.partitions.wanted").set(small(wanted));
}

/// A change of a partition's lease: `claimed`, `renewed`, `released` or `lost`.
pub(crate) fn lease(event: &'static str) {
    counter!("cdb.work.leases", "event" => event).increment(1);
}

/// The time that a lease had left when it was renewed. Near zero, leases are about to be lost.
pub(crate) fn lease_left(left: Duration) {
    histogram!("cdb.work.lease.left").record(left.as_secs_f64());
}

/// A batch was written.
pub(crate) fn flushed(entries: usize, elapsed: Duration) {
    histogram!("cdb.work.flush.size").record(small(entries));
    histogram!("cdb.work.flush.duration").record(elapsed.as_secs_f64());
}

/// A message was claimed.
pub(crate) fn claimed(message: &WorkMessage, now: Timestamp) {
    let lane = lane(message.lane);
    counter!("cdb.work.claimed", "lane" => lane).increment(1);
    let due = message.waiting_since.unwrap_or(now).max(message.due_at);
    histogram!("cdb.work.queue.age", "lane" => lane).record(now.since(due).as_secs_f64());
}

/// Messages were stored.
pub(crate) fn stored(count: usize) {
    counter!("cdb.work.stored").increment(count as u64);
}

/// A duplicate of a stored message arrived.
pub(crate) fn duplicate() {
    counter!("cdb.work.duplicates").increment(1);
}

/// A message ended or an attempt at it: completed, failed or dead.
pub(crate) fn ended(outcome: &'static str) {
    counter!("cdb.work.ended", "outcome" => outcome).increment(1);
}

/// A claim ended because its message was not reported in time.
pub(crate) fn claim_timeout() {
    counter!("cdb.work.claim.timeouts").increment(1);
}

/// The store refused to complete a message before its turn. Always zero, unless this crate has a
/// bug or another program has changed a document.
pub(crate) fn order_violation() {
    counter!("cdb.work.order.violations").increment(1);
}

/// An unreadable document was skipped.
pub(crate) fn unreadable() {
    counter!("cdb.work.unreadable").increment(1);
}

/// Entries were lost: their strategy or coordinator was dropped before they were written.
pub(crate) fn unflushed(count: usize) {
    counter!("cdb.work.unflushed").increment(count as u64);
}

fn lane(lane: Lane) -> &'static str {
    lane.as_str()
}

fn small(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
