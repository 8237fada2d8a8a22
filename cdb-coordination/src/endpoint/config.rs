//! The configuration of messaging.

use std::time::Duration;

use crate::message::Lifetimes;
use crate::retry::RetryPolicy;
use crate::timing::{
    CLAIM, LONGEST_RETENTION, POLL_INTERVAL, RESERVED, RETENTION, TimingError, YEAR,
};

/// The configuration of [`Messaging`](crate::Messaging). All processes on a container must use the
/// same `retention`. The times for which a message is reserved count as at most one year. Messaging
/// does not start with durations that do not fit.
///
/// ```
/// use cdb_coordination::messaging::MessagingConfig;
/// use cdb_coordination::retry::RetryPolicy;
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
    /// How long a message is claimed by the process that runs its handler, 30 s by default. The
    /// claim is renewed after each third of it, so a handler may take longer. A handler whose
    /// process cannot renew may run twice; its effect is still committed once.
    pub claim: Duration,
    /// The interval of the searches for messages that other processes left, 1 s by default. Each
    /// search is one query for the outbox and one for the inbox. The latter reads up to 2,048
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
            reserved: RESERVED,
            claim: CLAIM,
            poll_interval: POLL_INTERVAL,
            concurrency: 16,
            retention: RETENTION,
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
    pub(crate) fn limited(mut self) -> Self {
        self.reserved = self.reserved.min(YEAR);
        self.claim = self.claim.min(YEAR);
        self
    }

    /// Checks the relations of the durations: a process extends its reservation to a claim, and a
    /// message does not become too old while it waits once.
    pub(crate) fn check(&self) -> Result<(), TimingError> {
        let (first, longest) = (self.retry.first_delay, self.retry.longest_delay);
        let retention = self.retention.min(LONGEST_RETENTION);
        let [delay, poll] = [longest, self.poll_interval].map(|wait| wait.min(YEAR));
        TimingError::check(&[
            ("reserved", self.reserved, "claim", self.claim),
            ("retry.first_delay", first, "retry.longest_delay", longest),
            ("claim", self.claim, "retention", retention),
            ("retry.longest_delay", delay, "retention", retention),
            ("poll_interval", poll, "retention", retention),
        ])
    }

    pub(crate) fn lifetimes(&self) -> Lifetimes {
        Lifetimes::new(self.retention)
    }
}
