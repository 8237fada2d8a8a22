//! What outbox and inbox tell `metrics`. Durations are in seconds.

use std::time::Duration;

use metrics::{counter, histogram};

/// A message is in its receiver's partition, so long after it was sent.
pub(crate) fn delivered(age: Duration) {
    counter!("cdb.outbox.deliveries").increment(1);
    histogram!("cdb.outbox.queue_age").record(age.as_secs_f64());
}

/// A delivery found what an earlier one had left.
pub(crate) fn delivered_again() {
    counter!("cdb.outbox.duplicates").increment(1);
}

/// A delivery failed and is tried again later.
pub(crate) fn delivery_postponed() {
    counter!("cdb.outbox.retries").increment(1);
}

/// A message could not be delivered and was given up.
pub(crate) fn undeliverable() {
    counter!("cdb.outbox.dead_letters").increment(1);
}

/// A message has had its effect, so long after it was sent.
pub(crate) fn received(age: Duration) {
    counter!("cdb.inbox.received").increment(1);
    histogram!("cdb.inbox.queue_age").record(age.as_secs_f64());
}

/// A message arrived again after it had had its effect, and was dropped.
pub(crate) fn duplicate_dropped() {
    counter!("cdb.inbox.duplicates").increment(1);
}

/// A message waits for an earlier one of its stream.
pub(crate) fn held_back(messages: usize) {
    counter!("cdb.inbox.held_back").increment(u64::try_from(messages).unwrap_or(u64::MAX));
}

/// A handler failed and is tried again later.
pub(crate) fn receipt_postponed() {
    counter!("cdb.inbox.retries").increment(1);
}

/// A message could not be received and was given up.
pub(crate) fn unreceivable() {
    counter!("cdb.inbox.dead_letters").increment(1);
}
