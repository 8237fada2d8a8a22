//! The delay before a retry: exponential, with jitter, so that callers that failed together do not
//! retry together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::retry::RetryConfig;

/// A source of numbers from 0 to 1. Injected, so that tests control it.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    /// Draws from random UUIDs, which the operating system generates.
    pub fn random() -> Self {
        Self(Arc::new(|| {
            let [.., a, b, c, d] = *Uuid::new_v4().as_bytes();
            f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
        }))
    }

    /// Draws from `source`.
    pub fn from_source(source: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// Draws a number.
    pub fn draw(&self) -> f64 {
        (self.0)().clamp(0.0, 1.0)
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}

/// The delays of one call.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
    jitter: Jitter,
}

impl Backoff {
    pub(crate) fn new(config: &RetryConfig, jitter: Jitter) -> Self {
        Self {
            next: config.first_delay.min(config.longest_delay),
            longest: config.longest_delay,
            jitter,
        }
    }

    /// The delays while the service moves a partition or applies a change of rights: 0.2 to 1 s;
    /// azure-cosmos for Python waits 1 s (`_gone_retry_policy_base.py`).
    pub(crate) fn slow(config: &RetryConfig, jitter: Jitter) -> Self {
        let longest = Duration::from_secs(1).min(config.longest_delay);
        Self {
            next: Duration::from_millis(400).min(longest),
            longest,
            jitter,
        }
    }

    /// Returns the next delay: `retry_after` if the service asked for it.
    pub(crate) fn delay(&mut self, retry_after: Option<Duration>) -> Duration {
        match retry_after {
            Some(retry_after) => self.requested(retry_after),
            None => self.next_delay(),
        }
    }

    /// Returns half of the delay plus a random part of the other half.
    fn next_delay(&mut self) -> Duration {
        let whole = self.next;
        self.next = whole.saturating_mul(2).min(self.longest);
        (whole / 2).saturating_add((whole / 2).mul_f64(self.jitter.draw()))
    }

    /// Returns the requested delay, limited to the longest one, plus up to 5 ms of jitter.
    fn requested(&self, delay: Duration) -> Duration {
        let spread = Duration::from_millis(5).mul_f64(self.jitter.draw());
        delay.min(self.longest).saturating_add(spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(draw: f64) -> Vec<u128> {
        let config = RetryConfig::default()
            .with_delays(Duration::from_millis(10), Duration::from_millis(50));
        let mut backoff = Backoff::new(&config, Jitter::from_source(move || draw));
        (0..5).map(|_| backoff.next_delay().as_millis()).collect()
    }

    #[test]
    fn delays_double_up_to_the_longest_and_jitter_removes_at_most_half() {
        assert_eq!(delays(1.0), [10, 20, 40, 50, 50]);
        assert_eq!(delays(0.5), [7, 15, 30, 37, 37]);
        assert_eq!(delays(0.0), [5, 10, 20, 25, 25]);
    }

    #[test]
    fn slow_delays_last_from_a_fifth_of_a_second_to_a_second() {
        for (draw, expected) in [(0.0, [200, 400, 500, 500]), (1.0, [400, 800, 1000, 1000])] {
            let mut backoff =
                Backoff::slow(&RetryConfig::default(), Jitter::from_source(move || draw));
            let delays = [(); 4].map(|()| backoff.delay(None).as_millis());
            assert_eq!(delays, expected);
        }
    }

    #[test]
    fn a_requested_delay_is_used_up_to_the_longest_delay() {
        let config = RetryConfig::default();
        let backoff = Backoff::new(&config, Jitter::from_source(|| 0.0));
        let delay = |ms| backoff.requested(Duration::from_millis(ms)).as_millis();
        assert_eq!(delay(250), 250);
        assert_eq!(delay(60_000), config.longest_delay.as_millis());
    }

    #[test]
    fn the_longest_possible_delays_do_not_overflow() {
        let config = RetryConfig::default().with_delays(Duration::MAX, Duration::MAX);
        let mut backoff = Backoff::new(&config, Jitter::from_source(|| 1.0));
        let years = Duration::from_secs(3_000_000_000);
        assert!(backoff.next_delay() > years && backoff.next_delay() > years);
        assert!(backoff.delay(Some(Duration::MAX)) > years);
    }

    #[test]
    fn drawn_numbers_differ() {
        let jitter = Jitter::random();
        let drawn: Vec<f64> = (0..8).map(|_| jitter.draw()).collect();
        assert!(
            drawn
                .windows(2)
                .any(|pair| (pair[0] - pair[1]).abs() > f64::EPSILON)
        );
        assert!(drawn.iter().all(|draw| (0.0..=1.0).contains(draw)));
    }
}
