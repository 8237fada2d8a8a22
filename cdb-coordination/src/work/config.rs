//! How a coordinator works: partitions, lease, waiting, retries.

use std::time::Duration;

use cdb_model::Timestamp;

use super::documents::WorkMessage;
use super::partitions::Partitions;
use super::stream_order::Verdict;
use crate::rendezvous::name_hash;

/// Settings of a [`WorkCoordinator`](super::WorkCoordinator).
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::{Partitions, WorkConfig};
///
/// let mut config = WorkConfig::default();
/// config.lease = Duration::from_secs(5); // so soon others take over from a process that was killed
/// config.partitions = Partitions::new(64).expect("1 to 256"); // for ever: the first coordinator decides
/// assert_eq!(config.partitions.count(), 64);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkConfig {
    /// How this coordinator is called in the container, for people; need not be unique. `work` by default.
    pub name: String,
    /// How many virtual partitions there are. Decided by the first coordinator of a container.
    pub partitions: Partitions,
    /// How long a partition is held without a sign of life, 15 s by default. The messages of a coordinator that was
    /// killed are taken over after this.
    pub lease: Duration,
    /// How often it is looked after leases and partitions that became free, 1 s by default.
    pub upkeep: Duration,
    /// The longest wait between two searches for messages while none come, 1 s by default. The first wait is 20 ms.
    pub longest_pause: Duration,
    /// How often messages are searched for that came late, 10 s by default. A message comes late when the request that
    /// stores it takes longer than that of a later one, by more than a second.
    pub sweep: Duration,
    /// Messages that are held in memory, 5,000 by default; more are not fetched.
    pub most_held: usize,
    /// How long an ended message is remembered, 7 days by default. A second delivery after that is taken for a new one.
    pub remember: Duration,
    /// How often streams are deleted that have had no message for as long as ended ones are remembered, every hour by
    /// default; [`Duration::MAX`] leaves it to [`forget_streams`](super::WorkCoordinator::forget_streams). A search in each
    /// partition that is held.
    pub forget: Duration,
    /// What happens to messages that fail.
    pub retry: WorkRetry,
}

impl Default for WorkConfig {
    fn default() -> Self {
        Self {
            name: "work".to_owned(),
            partitions: Partitions::default(),
            lease: Duration::from_secs(15),
            upkeep: Duration::from_secs(1),
            longest_pause: Duration::from_secs(1),
            sweep: Duration::from_secs(10),
            most_held: 5000,
            remember: Duration::from_secs(7 * 24 * 3600),
            forget: Duration::from_secs(3600),
            retry: WorkRetry::default(),
        }
    }
}

impl WorkConfig {
    /// Seconds that ended messages are remembered; at least one.
    pub(super) fn remember_seconds(&self) -> u32 {
        u32::try_from(self.remember.as_secs())
            .unwrap_or(u32::MAX)
            .clamp(1, i32::MAX as u32)
    }
}

/// What happens to a message that fails.
///
/// ```
/// use cdb_coordination::{Exhausted, WorkConfig};
///
/// let mut config = WorkConfig::default();
/// assert_eq!(config.retry.most_attempts, 10);
/// config.retry.most_attempts = 3;
/// config.retry.exhausted = Exhausted::SkipMessage;
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WorkRetry {
    /// The first wait, 1 s by default; doubles each time, give or take a quarter.
    pub first: Duration,
    /// The longest wait, 5 minutes by default.
    pub longest: Duration,
    /// How often a message is tried, 10 by default.
    pub most_attempts: u32,
    /// What happens then.
    pub exhausted: Exhausted,
}

impl Default for WorkRetry {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(300),
            most_attempts: 10,
            exhausted: Exhausted::HoldStream,
        }
    }
}

/// What happens to a message that has failed too often.
///
/// ```
/// use cdb_coordination::{Exhausted, WorkRetry};
///
/// // Order matters to payments. For notifications, `SkipMessage`.
/// assert_eq!(WorkRetry::default().exhausted, Exhausted::HoldStream);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Exhausted {
    /// It is set aside and its stream waits until somebody redrives or discards it: order before progress.
    #[default]
    HoldStream,
    /// Its stream goes on without it; the message keeps its last failure for as long as it is remembered.
    SkipMessage,
}

impl WorkRetry {
    /// Decides about a message after its newest failure. The wait is spread by the message's own id, so that messages
    /// that failed together do not come back together.
    pub(super) fn judge(&self, message: &WorkMessage, now: Timestamp) -> Verdict {
        if message.attempts >= self.most_attempts {
            return match self.exhausted {
                Exhausted::HoldStream => Verdict::SetAside { now },
                Exhausted::SkipMessage => Verdict::Skip,
            };
        }
        let doublings = message.attempts.saturating_sub(1).min(20);
        let wait = self.first.saturating_mul(1 << doublings).min(self.longest);
        let spread = name_hash(&message.message_id).wrapping_add(u64::from(message.attempts)) % 50;
        let percent = u32::try_from(spread).unwrap_or_default() + 75;
        Verdict::Retry {
            due_at: now + wait * percent / 100,
        }
    }
}
