//! How long to wait before trying again: doubling, with jitter, so that callers who failed together do not return
//! together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::retry::RetryConfig;

/// A source of numbers from 0 to 1. Injected, so that tests know what it draws.
#[derive(Clone)]
pub(crate) struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    /// From the operating system, by way of random UUIDs: there is no need for a generator of our own.
    pub(crate) fn random() -> Self {
        Self(Arc::new(|| {
            let [.., a, b, c, d] = *Uuid::new_v4().as_bytes();
            f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
        }))
    }

    /// Always draws `value`.
    #[cfg(test)]
    pub(crate) fn constant(value: f64) -> Self {
        Self(Arc::new(move || value))
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

/// The waits of one call.
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

    /// The next wait: what the service asked for, if it did.
    pub(crate) fn delay(&mut self, asked: Option<Duration>) -> Duration {
        match asked {
            Some(asked) => self.asked_for(asked),
            None => self.next_delay(),
        }
    }

    /// Half of it certain, half of it drawn.
    fn next_delay(&mut self) -> Duration {
        let whole = self.next;
        self.next = whole.saturating_mul(2).min(self.longest);
        (whole / 2).saturating_add((whole / 2).mul_f64(self.jitter.draw()))
    }

    /// A little spread, and never longer than the longest.
    fn asked_for(&self, delay: Duration) -> Duration {
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
        let mut backoff = Backoff::new(&config, Jitter::constant(draw));
        (0..5).map(|_| backoff.next_delay().as_millis()).collect()
    }

    #[test]
    fn delays_double_up_to_the_longest_and_jitter_takes_at_most_half() {
        assert_eq!(delays(1.0), [10, 20, 40, 50, 50]);
        assert_eq!(delays(0.5), [7, 15, 30, 37, 37]);
        assert_eq!(delays(0.0), [5, 10, 20, 25, 25]);
    }

    #[test]
    fn what_the_service_asks_for_is_honoured_up_to_the_longest() {
        let config = RetryConfig::default();
        let backoff = Backoff::new(&config, Jitter::constant(0.0));
        let asked = |ms| backoff.asked_for(Duration::from_millis(ms)).as_millis();
        assert_eq!(asked(250), 250);
        assert_eq!(asked(60_000), config.longest_delay.as_millis());
    }

    #[test]
    fn delays_without_end_are_as_long_as_there_is_time() {
        let config = RetryConfig::default().with_delays(Duration::MAX, Duration::MAX);
        let mut backoff = Backoff::new(&config, Jitter::constant(1.0));
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
