//! Settings of a `Messaging`.

use std::time::Duration;

use crate::message::Lifetimes;
use crate::outbox::RetryPolicy;

/// Settings of a `Messaging`. All instances of `Messaging` of a container must have the same `retention`.
///
/// ```
/// use cdb_coordination::{MessagingConfig, RetryPolicy};
///
/// let config = MessagingConfig::default()
///     .with_retry(RetryPolicy::default().with_max_attempts(3))
///     .with_concurrency(4);
/// assert_eq!((config.retry.max_attempts, config.concurrency), (3, 4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessagingConfig {
    /// When failed deliveries and failed receipts are tried again, and when given up.
    pub retry: RetryPolicy,
    /// How long a message is left to the process that has it in memory, 2 s by default. Other processes take over what
    /// has not been delivered, or received, by then.
    pub reserved: Duration,
    /// How long a message is left to a process that has taken it over from another, 30 s by default. A handler that
    /// takes longer is run twice; its effect is committed once all the same.
    pub claim: Duration,
    /// How often to look for messages that others have left, 1 s by default. Costs a query of each kind.
    pub poll_interval: Duration,
    /// How many partitions are received in at once, 16 by default.
    pub concurrency: usize,
    /// How long a message may take from sender to receiver, 7 days by default. Older ones become dead letters, and what
    /// is remembered of a stream is four times as old at most. The container's documents live as long as they say, so
    /// all of its instances of `Messaging` must agree.
    pub retention: Duration,
}

impl Default for MessagingConfig {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            reserved: Duration::from_secs(2),
            claim: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
            concurrency: 16,
            retention: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

impl MessagingConfig {
    /// Sets the retries.
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets how long a message is left to who has it in memory, and to who has taken it over.
    pub fn with_claims(mut self, reserved: Duration, claim: Duration) -> Self {
        self.reserved = reserved;
        self.claim = claim;
        self
    }

    /// Sets how often to look for what others have left.
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets how many partitions are received in at once.
    pub fn with_concurrency(mut self, partitions: usize) -> Self {
        self.concurrency = partitions;
        self
    }

    /// Sets how long a message may take.
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    pub(crate) fn lifetimes(&self) -> Lifetimes {
        Lifetimes::new(self.retention)
    }
}
