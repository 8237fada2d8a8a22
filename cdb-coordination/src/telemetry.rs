//! The metrics of outbox and inbox. Durations are in seconds.

use std::time::Duration;

use metrics::{counter, histogram};

/// Counts a delivered message. `age` is the time since it was sent.
pub(crate) fn delivered(age: Duration) {
    counter!("cdb.outbox.deliveries").increment(1);
    histogram!("cdb.outbox.queue_age").record(age.as_secs_f64());
}

/// Counts a delivery that found the message of an earlier delivery.
pub(crate) fn delivered_again() {
    counter!("cdb.outbox.duplicates").increment(1);
}

/// Counts a failed delivery that is retried later.
pub(crate) fn delivery_retried() {
    counter!("cdb.outbox.retries").increment(1);
}

/// Counts a message that became a dead letter in its outbox.
pub(crate) fn outbox_dead_letter() {
    counter!("cdb.outbox.dead_letters").increment(1);
}

/// Counts a received message. `age` is the time since it was sent.
pub(crate) fn received(age: Duration) {
    counter!("cdb.inbox.received").increment(1);
    histogram!("cdb.inbox.queue_age").record(age.as_secs_f64());
}

/// Counts a message that arrived again after its receipt and was deleted.
pub(crate) fn duplicate_dropped() {
    counter!("cdb.inbox.duplicates").increment(1);
}

/// Counts messages that wait for earlier messages of their streams.
pub(crate) fn held_back(messages: usize) {
    counter!("cdb.inbox.held_back").increment(u64::try_from(messages).unwrap_or(u64::MAX));
}

/// Counts a failed handler that is retried later.
pub(crate) fn handler_retried() {
    counter!("cdb.inbox.retries").increment(1);
}

/// Counts a message that became a dead letter in its inbox.
pub(crate) fn inbox_dead_letter() {
    counter!("cdb.inbox.dead_letters").increment(1);
}
