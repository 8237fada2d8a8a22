//! When what has failed is tried again, and when it is given up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cdb_client::{Error, ErrorKind};
use cdb_model::Timestamp;
use serde::{Deserialize, Serialize};

/// When to try again, and how often.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::{Jitter, RetryPolicy};
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
    /// The first wait, 1 s by default; doubles each time.
    pub first_delay: Duration,
    /// The longest wait, 5 min by default.
    pub longest_delay: Duration,
    /// After so many attempts that count, 10 by default, a message is a dead letter.
    pub max_attempts: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_secs(1),
            longest_delay: Duration::from_secs(300),
            max_attempts: 10,
        }
    }
}

impl RetryPolicy {
    /// Sets the first and the longest wait.
    pub fn with_delays(mut self, first: Duration, longest: Duration) -> Self {
        self.first_delay = first;
        self.longest_delay = longest;
        self
    }

    /// Sets how many attempts count until a message is given up; at least one.
    pub fn with_max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// The wait after `failures` failures: doubling, half of it certain and half of it drawn, so that what failed
    /// together does not come again together.
    pub fn delay(&self, failures: u32, jitter: &Jitter) -> Duration {
        let doublings = failures.saturating_sub(1).min(30);
        let whole = self
            .first_delay
            .saturating_mul(1 << doublings)
            .min(self.longest_delay);
        whole / 2 + (whole / 2).mul_f64(jitter.draw())
    }
}

/// A source of numbers from 0 to 1. Injected, so that tests know what it draws.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::{Jitter, RetryPolicy};
///
/// let policy = RetryPolicy::default();
/// let least = Jitter::from_source(|| 0.0); // in a test; else `Jitter::random()`
/// assert_eq!(policy.delay(1, &least), policy.first_delay / 2);
/// assert!(policy.delay(1, &Jitter::random()) <= Duration::from_secs(1));
/// ```
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    /// Random, by way of UUIDs: there is no need for a generator of our own.
    pub fn random() -> Self {
        Self(Arc::new(|| {
            let [.., a, b, c, d] = *uuid::Uuid::new_v4().as_bytes();
            f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
        }))
    }

    /// Draws from `source`.
    pub fn from_source(source: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    fn draw(&self) -> f64 {
        (self.0)().clamp(0.0, 1.0)
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}

/// Why something was not delivered, and what that means.
///
/// ```
/// use cdb_coordination::{RetryPolicy, Undelivered};
///
/// let policy = RetryPolicy::default().with_max_attempts(3);
/// assert!(Undelivered::refused("the queue is full").is_final(3, &policy));
/// assert!(Undelivered::permanent("no such queue").is_final(1, &policy));
/// assert!(!Undelivered::unreachable("no answer").is_final(1_000, &policy)); // an outage buries nothing
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Undelivered {
    reason: String,
    weight: Weight,
}

/// How much a failure says about what failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// Nothing: the service was not there. It never makes a dead letter, or an outage would make one of every message.
    Unreachable,
    /// It counts as an attempt.
    Refused,
    /// No attempt can succeed.
    Permanent,
}

impl Undelivered {
    /// The service could not be reached or had no room: tried again for ever.
    pub fn unreachable(reason: impl Into<String>) -> Self {
        Self::new(reason.into(), Weight::Unreachable)
    }

    /// It was refused: tried again as often as the policy says.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::new(reason.into(), Weight::Refused)
    }

    /// It cannot be delivered, ever: not tried again.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self::new(reason.into(), Weight::Permanent)
    }

    fn new(reason: String, weight: Weight) -> Self {
        Self { reason, weight }
    }

    /// Whether this failure counts as an attempt.
    pub fn counts(&self) -> bool {
        self.weight != Weight::Unreachable
    }

    /// Whether to give up, after `attempts` that counted, this one included.
    pub fn is_final(&self, attempts: u32, policy: &RetryPolicy) -> bool {
        match self.weight {
            Weight::Unreachable => false,
            Weight::Refused => attempts >= policy.max_attempts,
            Weight::Permanent => true,
        }
    }
}

impl From<&Error> for Undelivered {
    fn from(error: &Error) -> Self {
        let weight = match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::Forbidden
            | ErrorKind::BadRequest
            | ErrorKind::Conflict
            | ErrorKind::PreconditionFailed
            | ErrorKind::TooLarge
            | ErrorKind::Encode
            | ErrorKind::ContainerMismatch => Weight::Refused,
            // Keys are rotated, answers come from gateways, partitions split: none of it is the message's fault.
            _ => Weight::Unreachable,
        };
        Self::new(error.to_string(), weight)
    }
}

/// One failed attempt.
///
/// ```
/// use cdb_coordination::Attempt;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dead_letter.rs")); }
/// # use shop::given_up;
/// # shop::with_shop(async |shop| {
///
/// # let letter = given_up(shop).await?;
/// // `letter` is one of `DeadLetters::list`.
/// let failed: &[Attempt] = &letter.history;
/// assert_eq!(failed[0].reason, "closed on Sundays");
/// assert!(letter.sent_at <= failed[0].at);
/// # Ok(()) }).unwrap();
/// ```
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// When it had failed, by the service's clock.
    pub at: Timestamp,
    /// What went wrong.
    pub reason: String,
}

/// The attempts so far, stored with what they are about.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(crate) struct Tries {
    /// Those that count.
    #[serde(default)]
    pub(crate) counted: u32,
    /// All of them; the wait grows with it.
    #[serde(default)]
    pub(crate) failed: u32,
    /// The newest, oldest first.
    #[serde(default)]
    pub(crate) history: Vec<Attempt>,
}

/// Most attempts that are told of, and most bytes of a reason: a dead letter must stay far below a document's limit.
const HISTORY: usize = 20;
const REASON_BYTES: usize = 1000;

impl Tries {
    /// Notes a failure.
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

/// The beginning of a text, cut between characters.
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
    use super::*;

    fn policy() -> RetryPolicy {
        RetryPolicy::default()
            .with_delays(Duration::from_millis(100), Duration::from_secs(1))
            .with_max_attempts(3)
    }

    #[test]
    fn waits_double_up_to_the_longest_and_jitter_takes_at_most_half() {
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
        assert!(!Undelivered::unreachable("no answer").is_final(1_000, &policy()));
        let refused = Undelivered::refused("no such container");
        assert!(!refused.is_final(2, &policy()));
        assert!(refused.is_final(3, &policy()));
        assert!(Undelivered::permanent("unreadable").is_final(1, &policy()));
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
