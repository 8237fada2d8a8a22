//! The metrics of outbox and inbox. Durations are in seconds.

use std::time::Duration;

use metrics::{counter, histogram};

/// A message was delivered; `age` is the time since it was sent.
pub(crate) fn delivered(age: Duration) {
    counter!("cdb.outbox.deliveries").increment(1);
    histogram!("cdb.outbox.queue_age").record(age.as_secs_f64());
}

/// A delivery found the message of an earlier delivery.
pub(crate) fn delivered_again() {
    counter!("cdb.outbox.duplicates").increment(1);
}

/// A delivery failed and is retried later.
pub(crate) fn delivery_postponed() {
    counter!("cdb.outbox.retries").increment(1);
}

/// A message became a dead letter in its outbox.
pub(crate) fn undeliverable() {
    counter!("cdb.outbox.dead_letters").increment(1);
}

/// A message was received; `age` is the time since it was sent.
pub(crate) fn received(age: Duration) {
    counter!("cdb.inbox.received").increment(1);
    histogram!("cdb.inbox.queue_age").record(age.as_secs_f64());
}

/// A message arrived again after its receipt, and was deleted.
pub(crate) fn duplicate_dropped() {
    counter!("cdb.inbox.duplicates").increment(1);
}

/// Messages wait for earlier ones of their streams.
pub(crate) fn held_back(messages: usize) {
    counter!("cdb.inbox.held_back").increment(u64::try_from(messages).unwrap_or(u64::MAX));
}

/// A handler failed and is retried later.
pub(crate) fn receipt_postponed() {
    counter!("cdb.inbox.retries").increment(1);
}

/// A message became a dead letter in its inbox.
pub(crate) fn unreceivable() {
    counter!("cdb.inbox.dead_letters").increment(1);
}
