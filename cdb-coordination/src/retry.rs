//! The retry policy: when failures are retried, and when they are final.

use std::time::Duration;

#[doc(inline)]
pub use cdb_client::retry::Jitter;
use cdb_client::{Error, ErrorKind};
use cdb_model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::timing::{FIRST_RETRY, LONGEST_RETRY, YEAR};

/// When and how often failures are retried.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::retry::{Jitter, RetryPolicy};
///
/// let policy = RetryPolicy::default()
///     .with_delays(Duration::from_secs(2), Duration::from_secs(60))
///     .with_max_attempts(5);
/// let whole = Jitter::from_source(|| 1.0);
/// assert_eq!(policy.delay(1, &whole), Duration::from_secs(2));
/// assert_eq!(policy.delay(9, &whole), Duration::from_secs(60));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// The first delay, 1 s by default. Doubles with each failure.
    pub first_delay: Duration,
    /// The longest delay, 5 min by default, at most one year.
    pub longest_delay: Duration,
    /// How many counted attempts a message has, 10 by default. After the last one it becomes a dead
    /// letter; ordered work may skip it instead.
    pub max_attempts: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl RetryPolicy {
    /// The default.
    pub const DEFAULT: Self = Self {
        first_delay: FIRST_RETRY,
        longest_delay: LONGEST_RETRY,
        max_attempts: 10,
    };

    /// Sets the first and the longest delay.
    pub fn with_delays(mut self, first: Duration, longest: Duration) -> Self {
        self.first_delay = first;
        self.longest_delay = longest;
        self
    }

    /// Sets how many counted attempts a message has; at least one.
    pub fn with_max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// The delay after `failures` failures: exponential backoff, half of it fixed and half of it
    /// jitter.
    pub fn delay(&self, failures: u32, jitter: &Jitter) -> Duration {
        let doublings = failures.saturating_sub(1).min(30);
        let whole = self
            .first_delay
            .saturating_mul(1 << doublings)
            .min(self.longest_delay)
            .min(YEAR);
        whole / 2 + (whole / 2).mul_f64(jitter.draw())
    }
}

/// The reason why a message was not delivered, and whether to retry.
///
/// ```
/// use cdb_coordination::retry::{RetryPolicy, DeliveryError};
///
/// let policy = RetryPolicy::default().with_max_attempts(3);
/// assert!(DeliveryError::refused("the queue is full").is_final(3, &policy));
/// assert!(DeliveryError::permanent("no such queue").is_final(1, &policy));
/// assert!(!DeliveryError::unreachable("no answer").is_final(1_000, &policy)); // an outage is never final
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DeliveryError {
    reason: String,
    weight: Weight,
}

/// What a failure says about the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// Nothing: the service was away. Never final, because an outage must not turn every message
    /// into a dead letter.
    Unreachable,
    /// The failure counts as an attempt.
    Refused,
    /// No attempt can succeed.
    Permanent,
}

impl DeliveryError {
    /// The service cannot be reached or has no capacity: retried without limit.
    pub fn unreachable(reason: impl Into<String>) -> Self {
        Self::new(reason.into(), Weight::Unreachable)
    }

    /// The message was refused: retried as often as the policy says.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::new(reason.into(), Weight::Refused)
    }

    /// The message can never be delivered: not retried.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self::new(reason.into(), Weight::Permanent)
    }

    fn new(reason: String, weight: Weight) -> Self {
        Self { reason, weight }
    }

    /// Returns `true` if this failure counts as an attempt.
    pub fn counts(&self) -> bool {
        self.weight != Weight::Unreachable
    }

    /// Returns `true` if the failure is final after `attempts` counted attempts, including this
    /// one.
    pub fn is_final(&self, attempts: u32, policy: &RetryPolicy) -> bool {
        match self.weight {
            Weight::Unreachable => false,
            Weight::Refused => attempts >= policy.max_attempts,
            Weight::Permanent => true,
        }
    }
}

impl From<&Error> for DeliveryError {
    fn from(error: &Error) -> Self {
        let weight = match error.kind() {
            // Rotated keys and changed roles say nothing about the message.
            _ if error.is_denied() => Weight::Unreachable,
            ErrorKind::NotFound
            | ErrorKind::Forbidden
            | ErrorKind::BadRequest
            | ErrorKind::Conflict
            | ErrorKind::PreconditionFailed
            | ErrorKind::TooLarge
            | ErrorKind::Encode
            | ErrorKind::ContainerDiffers => Weight::Refused,
            // Neither do errors of gateways and split partitions.
            _ => Weight::Unreachable,
        };
        Self::new(error.to_string(), weight)
    }
}

/// A failed attempt.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// When it failed, in the service's time.
    pub at: Timestamp,
    /// The error.
    pub reason: String,
}

/// The attempts at a message, stored with the message.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(crate) struct Tries {
    /// The attempts that count.
    #[serde(default)]
    pub(crate) counted: u32,
    /// All attempts; the delay grows with them.
    #[serde(default)]
    pub(crate) failed: u32,
    /// The newest attempts, oldest first.
    #[serde(default)]
    pub(crate) history: Vec<Attempt>,
}

/// The most stored attempts and the most bytes of a reason: a dead letter must stay far below the
/// size limit of documents.
const HISTORY: usize = 20;
const REASON_BYTES: usize = 1000;

impl Tries {
    /// Adds a failed attempt.
    pub(crate) fn note(&mut self, at: Timestamp, reason: &str, counts: bool) {
        self.counted = self.counted.saturating_add(u32::from(counts));
        self.failed = self.failed.saturating_add(1);
        self.history.push(Attempt {
            at,
            reason: shortened(reason),
        });
        let surplus = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..surplus);
    }
}

/// Cuts a text at a character boundary.
pub(crate) fn shortened(text: &str) -> String {
    let end = text
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|&end| end <= REASON_BYTES)
        .last();
    text[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use cdb_client::transport::Step;
    use cdb_client::{CosmosClient, MasterKey};

    use super::*;

    fn policy() -> RetryPolicy {
        RetryPolicy::default()
            .with_delays(Duration::from_millis(100), Duration::from_secs(1))
            .with_max_attempts(3)
    }

    #[test]
    fn delays_double_up_to_the_longest_and_jitter_is_at_most_half() {
        let delays = |draw: f64| -> Vec<u128> {
            let jitter = Jitter::from_source(move || draw);
            (1..=6)
                .map(|failures| policy().delay(failures, &jitter).as_millis())
                .collect()
        };
        assert_eq!(delays(1.0), [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(delays(0.0), [50, 100, 200, 400, 500, 500]);
        assert_eq!(
            policy().delay(u32::MAX, &Jitter::from_source(|| 7.0)),
            Duration::from_secs(1)
        );
    }

    #[test]
    fn an_outage_makes_no_dead_letters() {
        assert!(!DeliveryError::unreachable("no answer").is_final(1_000, &policy()));
        let refused = DeliveryError::refused("no such container");
        assert!(!refused.is_final(2, &policy()));
        assert!(refused.is_final(3, &policy()));
        assert!(DeliveryError::permanent("unreadable").is_final(1, &policy()));
    }

    #[tokio::test(start_paused = true)]
    async fn denied_rights_make_no_dead_letters() {
        for ((status, sub), counts) in [
            ((401, 0), false),
            ((403, 0), false),
            ((403, 5302), false),
            ((403, 1014), true),
            ((404, 1003), true),
        ] {
            let script =
                cdb_client::transport::Script::new((0..3).map(|_| Step::refusal(status, sub)));
            let client = CosmosClient::builder("http://localhost:8081")
                .credential(MasterKey::new(cdb_emulator::WELL_KNOWN_KEY).unwrap())
                .transport(script)
                .build()
                .unwrap();
            let error = client.database("shop").delete().await.unwrap_err();
            let undelivered = DeliveryError::from(&error);
            assert_eq!(undelivered.counts(), counts, "{status}/{sub}");
        }
    }

    #[test]
    fn the_history_is_bounded_and_keeps_the_newest() {
        let mut tries = Tries::default();
        for number in 0..50_u64 {
            tries.note(Timestamp::from_millis(number), &"ö".repeat(3_000), true);
        }
        assert_eq!((tries.counted, tries.failed), (50, 50));
        assert_eq!(tries.history.len(), HISTORY);
        assert_eq!(tries.history[HISTORY - 1].at, Timestamp::from_millis(49));
        assert_eq!(tries.history[0].reason.len(), REASON_BYTES);
    }
}
