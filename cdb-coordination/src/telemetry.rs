//! The metrics of outbox and inbox. Durations are in seconds.

use std::time::Duration;

use metrics::{counter, histogram};

/// Counts an event of one message.
pub(crate) fn count(event: &'static str) {
    counter!(event).increment(1);
}

/// A message was delivered; `age` is the time since it was sent.
pub(crate) fn delivered(age: Duration) {
    counter!("cdb.outbox.deliveries").increment(1);
    histogram!("cdb.outbox.queue_age").record(age.as_secs_f64());
}

/// A delivery found the message of an earlier delivery.
pub(crate) const DELIVERED_AGAIN: &str = "cdb.outbox.duplicates";

/// A delivery failed and is retried later.
pub(crate) const DELIVERY_POSTPONED: &str = "cdb.outbox.retries";

/// A message became a dead letter in its outbox.
pub(crate) const UNDELIVERABLE: &str = "cdb.outbox.dead_letters";

/// A message was received; `age` is the time since it was sent.
pub(crate) fn received(age: Duration) {
    counter!("cdb.inbox.received").increment(1);
    histogram!("cdb.inbox.queue_age").record(age.as_secs_f64());
}

/// A message arrived again after its receipt, and was deleted.
pub(crate) const DUPLICATE_DROPPED: &str = "cdb.inbox.duplicates";

/// Messages wait for earlier ones of their streams.
pub(crate) fn held_back(messages: usize) {
    counter!("cdb.inbox.held_back").increment(u64::try_from(messages).unwrap_or(u64::MAX));
}

/// A handler failed and is retried later.
pub(crate) const RECEIPT_POSTPONED: &str = "cdb.inbox.retries";

/// A message became a dead letter in its inbox.
pub(crate) const UNRECEIVABLE: &str = "cdb.inbox.dead_letters";
