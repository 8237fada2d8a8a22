//! The configuration of messaging.

use std::time::Duration;

use crate::limits::YEAR;
use crate::message::Lifetimes;
use crate::outbox::RetryPolicy;

/// The configuration of [`Messaging`](crate::Messaging). All processes on a container must use the
/// same `retention`. The times for which a message is reserved count as at most one year.
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
    /// The retry policy of deliveries and receipts.
    pub retry: RetryPolicy,
    /// How long a message is reserved for the process that has it in memory, 2 s by default. After
    /// that any process may deliver or receive it.
    pub reserved: Duration,
    /// How long a message is reserved for a process that has claimed it, 30 s by default. A handler
    /// that takes longer may run twice; its effect is still committed once.
    pub claim: Duration,
    /// The interval of the searches for messages that other processes left, 1 s by default. Each
    /// search is one query for the outbox and one for the inbox. The latter reads up to 1,024
    /// messages of a backlog, and the next search goes on behind them.
    pub poll_interval: Duration,
    /// In how many partitions messages are received at the same time, 16 by default.
    pub concurrency: usize,
    /// How long a message may take from sender to receiver, 7 days by default. Older messages
    /// become dead letters. Records of streams live up to four times as long. All processes on the
    /// container must use the same value.
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
    /// Sets the retry policy.
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets how long a message is reserved for the process that has it in memory, and for a process
    /// that has claimed it.
    pub fn with_claims(mut self, reserved: Duration, claim: Duration) -> Self {
        self.reserved = reserved;
        self.claim = claim;
        self
    }

    /// Sets the interval of the searches for messages of other processes.
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets in how many partitions messages are received at the same time.
    pub fn with_concurrency(mut self, partitions: usize) -> Self {
        self.concurrency = partitions;
        self
    }

    /// Sets how long a message may take from sender to receiver.
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Limits the durations that are added to times.
    pub(super) fn limited(mut self) -> Self {
        self.reserved = self.reserved.min(YEAR);
        self.claim = self.claim.min(YEAR);
        self
    }

    pub(crate) fn lifetimes(&self) -> Lifetimes {
        Lifetimes::new(self.retention)
    }
}
