//! The backoff of targets whose partition did not answer.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::timing::{MAX_TARGET_BACKOFF, MIN_TARGET_BACKOFF};

/// The most targets with a backoff. Beyond them, failing targets are retried in every round.
const MAX_TARGETS: usize = 10_000;

/// The targets whose last delivery failed because the service was unavailable. Refused intents are
/// not among them: those are postponed in the container.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failing: Mutex<HashMap<String, Failing>>,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    backoff: Duration,
    retry_at: Instant,
}

impl Backoff {
    /// Returns whether the backoff of a target has not ended.
    pub(crate) fn is_waiting(&self, target: &str) -> bool {
        let failing = self.failing.lock();
        let state = failing.get(target);
        state.is_some_and(|state| state.retry_at > Instant::now())
    }

    /// Ends the backoff of a target.
    pub(crate) fn note_success(&self, target: &str) {
        self.failing.lock().remove(target);
    }

    /// Starts the backoff of a target. Concurrent failures count once.
    pub(crate) fn note_failure(&self, target: &str) {
        let (mut failing, now) = (self.failing.lock(), Instant::now());
        let before = failing.get(target).copied();
        if before.is_some_and(|state| state.retry_at > now) {
            return;
        }
        if before.is_none() && failing.len() >= MAX_TARGETS {
            failing.retain(|_, state| state.retry_at + MAX_TARGET_BACKOFF > now);
            if failing.len() >= MAX_TARGETS {
                return;
            }
        }
        let backoff = before.map_or(MIN_TARGET_BACKOFF, |state| {
            (state.backoff * 2).min(MAX_TARGET_BACKOFF)
        });
        let retry_at = now + backoff;
        failing.insert(target.to_owned(), Failing { backoff, retry_at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_backoff_doubles_up_to_the_longest_and_ends_with_a_success() {
        let targets = Backoff::default();
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            targets.note_failure("target");
            targets.note_failure("target");
            tokio::time::advance(Duration::from_millis(seconds * 1000 - 1)).await;
            assert!(targets.is_waiting("target") && !targets.is_waiting("other"));
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(!targets.is_waiting("target"));
        }
        targets.note_failure("target");
        targets.note_success("target");
        assert!(!targets.is_waiting("target"));
        targets.note_failure("target");
        tokio::time::advance(MIN_TARGET_BACKOFF).await;
        assert!(!targets.is_waiting("target"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_targets_is_bounded() {
        let targets = Backoff::default();
        for number in 0..MAX_TARGETS {
            targets.note_failure(&number.to_string());
        }
        targets.note_failure("late");
        assert!(!targets.is_waiting("late"));
        tokio::time::advance(MIN_TARGET_BACKOFF + MAX_TARGET_BACKOFF).await;
        targets.note_failure("late");
        assert!(targets.is_waiting("late"));
        assert_eq!(targets.failing.lock().len(), 1);
    }
}
