//! The moving average of processing times.

use std::time::Duration;

/// An exponential moving average; each new time has a weight of one eighth.
#[derive(Debug, Default)]
pub(crate) struct MovingAverage {
    time: Option<Duration>,
}

impl MovingAverage {
    /// Adds a processing time.
    pub(crate) fn add(&mut self, time: Duration) {
        self.time = Some(self.time.map_or(time, |average| average * 7 / 8 + time / 8));
    }

    /// Returns how many items fit into `time` in sequence: at least one, and one while no time is
    /// known.
    pub(crate) fn items_within(&self, time: Duration) -> usize {
        let average = self.time.unwrap_or(time).max(Duration::from_micros(1));
        let count = time.as_micros() / average.as_micros();
        usize::try_from(count).unwrap_or(usize::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_recent_times() {
        let ms = Duration::from_millis;
        let mut average = MovingAverage::default();
        assert_eq!(average.items_within(ms(100)), 1);
        average.add(ms(10));
        assert_eq!(average.items_within(ms(100)), 10);
        for _ in 0..40 {
            average.add(ms(50));
        }
        assert_eq!(average.items_within(ms(100)), 2);
        assert_eq!(average.items_within(ms(1)), 1);
    }
}
