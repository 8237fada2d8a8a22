//! The configuration of a coordinator.

use std::time::Duration;

use cdb_model::Timestamp;

use crate::streams::documents::WorkMessage;
use crate::streams::partitions::Partitions;
use crate::streams::stream::Verdict;
use crate::timing::{
    CLAIM_TIMEOUT, DRAIN, FORGET, LEASE, LONGEST_PAUSE, REMEMBER, RENEWED_IN, SWEEP, UPKEEP, YEAR,
};
use cdb_coordination::membership::name_hash;
use cdb_coordination::retry::{Jitter, RetryPolicy};
use cdb_coordination::timing::TimingError;

/// The configuration of a [`WorkCoordinator`](crate::WorkCoordinator). Intervals, leases and delays
/// count as at most one year.
///
/// ```
/// use std::time::Duration;
/// use cdb_work::{Partitions, WorkConfig};
///
/// let config = WorkConfig::default()
///     .with_lease(Duration::from_secs(5)) // others take over from a killed process after this time
///     .with_partitions(Partitions::new(64).expect("1 to 4,096")); // the first coordinator decides, for all time
/// assert_eq!(config.partitions.count(), 64);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkConfig {
    /// The coordinator's name in the container, for people; need not be unique. `work` by default.
    pub name: String,
    /// The number of virtual partitions. The first coordinator of a container decides.
    pub partitions: Partitions,
    /// The most partitions that this coordinator holds, no limit by default. Other coordinators
    /// adopt the rest of its share after up to two times [`lease`](Self::lease).
    pub max_partitions: u16,
    /// How long a partition is leased, 15 s by default. After that, other coordinators take over
    /// the messages of a killed one.
    pub lease: Duration,
    /// How long a message may be claimed, 5 minutes by default. After that the attempt counts as failed
    /// and its report is refused. [`ClaimedWork::renew`](crate::ClaimedWork::renew) starts the time
    /// again.
    pub claim_timeout: Duration,
    /// How long the streams of a partition pause at a hand-over to another coordinator, 5 s by
    /// default. If a message is claimed for longer, the other streams of the partition continue here
    /// until it has ended. They pause for one [`lease`](Self::lease) after each
    /// [`claim_timeout`](Self::claim_timeout): a partition whose handlers overlap moves then, if all
    /// of them end within that time.
    pub drain: Duration,
    /// The interval of renewing leases and taking free partitions, 1 s by default. At most a third
    /// of [`lease`](Self::lease).
    pub upkeep: Duration,
    /// The longest wait between two searches without messages, 1 s by default; at most
    /// [`sweep`](Self::sweep). The first wait is 20 ms.
    pub longest_pause: Duration,
    /// The interval of searches for late messages, 10 s by default. A message is late when its
    /// request takes over a second longer than that of a later message.
    pub sweep: Duration,
    /// How many messages are held in memory, 5,000 by default, without those of a lane that this
    /// process does not claim.
    pub most_in_memory: usize,
    /// How long a completed message is remembered, 7 days by default. A later duplicate counts as a
    /// new message.
    pub remember: Duration,
    /// The interval of deleting streams that have been idle for [`remember`](Self::remember), one
    /// hour by default; one search per held partition. With [`Duration::MAX`], call
    /// [`forget_streams`](crate::WorkCoordinator::forget_streams) instead.
    pub forget: Duration,
    /// The retry policy of failed messages. An attempt counts as failed without a report too: its
    /// handler panicked, its claim was dropped or timed out, or its process ended.
    pub retry: RetryPolicy,
    /// What happens to a message after its last attempt.
    pub exhausted: Exhausted,
}

impl Default for WorkConfig {
    fn default() -> Self {
        Self {
            name: "work".to_owned(),
            partitions: Partitions::default(),
            max_partitions: u16::MAX,
            lease: LEASE,
            claim_timeout: CLAIM_TIMEOUT,
            drain: DRAIN,
            upkeep: UPKEEP,
            longest_pause: LONGEST_PAUSE,
            sweep: SWEEP,
            most_in_memory: 5000,
            remember: REMEMBER,
            forget: FORGET,
            retry: RetryPolicy::default(),
            exhausted: Exhausted::default(),
        }
    }
}

macro_rules! setters {
    ($($with:ident($field:ident: $type:ty))*) => {
        impl WorkConfig {$(
            #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
            #[must_use]
            pub fn $with(mut self, $field: impl Into<$type>) -> Self {
                self.$field = $field.into();
                self
            }
        )*}
    };
}

setters! {
    with_name(name: String)
    with_partitions(partitions: Partitions)
    with_max_partitions(max_partitions: u16)
    with_lease(lease: Duration)
    with_claim_timeout(claim_timeout: Duration)
    with_drain(drain: Duration)
    with_upkeep(upkeep: Duration)
    with_longest_pause(longest_pause: Duration)
    with_sweep(sweep: Duration)
    with_most_in_memory(most_in_memory: usize)
    with_remember(remember: Duration)
    with_forget(forget: Duration)
    with_retry(retry: RetryPolicy)
    with_exhausted(exhausted: Exhausted)
}

impl WorkConfig {
    /// Limits the durations that are added to times, and refuses those that break a relation.
    pub(crate) fn checked(mut self) -> Result<Self, TimingError> {
        for duration in [
            &mut self.lease,
            &mut self.upkeep,
            &mut self.longest_pause,
            &mut self.sweep,
        ] {
            *duration = (*duration).min(YEAR);
        }
        let (first, longest) = (self.retry.first_delay, self.retry.longest_delay);
        TimingError::check(&[
            // The last third of a lease has an upkeep, so no lease ends without an attempt to renew
            // it.
            ("upkeep", self.upkeep, "lease / 3", self.lease / RENEWED_IN),
            // Sweeps begin with a search.
            ("longest_pause", self.longest_pause, "sweep", self.sweep),
            ("retry.first_delay", first, "retry.longest_delay", longest),
        ])?;
        Ok(self)
    }

    /// Decides what happens after the last attempt.
    pub(crate) fn judge_exhausted(&self, now: Timestamp) -> Verdict {
        match self.exhausted {
            Exhausted::HoldStream => Verdict::Dead { now },
            Exhausted::SkipMessage => Verdict::Skip,
        }
    }

    /// Decides what happens after a failure. The jitter derives from the message id, so messages
    /// that failed together are not retried together.
    pub(crate) fn judge(&self, message: &WorkMessage, now: Timestamp) -> Verdict {
        if message.attempts >= self.retry.max_attempts {
            return self.judge_exhausted(now);
        }
        let hash = name_hash(&message.message_id).wrapping_add(u64::from(message.attempts));
        let percent = u8::try_from(hash % 100).unwrap_or_default();
        let jitter = Jitter::from_source(move || f64::from(percent) / 100.0);
        Verdict::Retry {
            due_at: now + self.retry.delay(message.attempts, &jitter),
        }
    }

    /// The time to live of completed messages in seconds; at least one.
    pub(crate) fn remember_seconds(&self) -> u32 {
        seconds(self.remember)
    }
}

/// A time to live in seconds; at least one.
pub(crate) fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs())
        .unwrap_or(u32::MAX)
        .clamp(1, i32::MAX as u32)
}

/// What happens to a message after its last attempt.
///
/// ```
/// use cdb_work::{Exhausted, WorkConfig};
///
/// // Keeps the order, for example of payments. Use `SkipMessage` for notifications.
/// assert_eq!(WorkConfig::default().exhausted, Exhausted::HoldStream);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Exhausted {
    /// The message is dead, and its stream waits until an operator redrives or discards it:
    /// order before progress.
    #[default]
    HoldStream,
    /// The message is skipped, and its stream goes on. The message keeps its last failure while it
    /// is remembered.
    SkipMessage,
}
