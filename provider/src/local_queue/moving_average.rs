//! The average time of the last turns or activities of this process.

use std::time::Duration;

/// An exponential moving average; each new time has a weight of one eighth.
#[derive(Debug, Default)]
pub(crate) struct MovingAverage {
    time: Option<Duration>,
}

impl MovingAverage {
    /// Adds the time of one more.
    pub(crate) fn took(&mut self, time: Duration) {
        self.time = Some(self.time.map_or(time, |average| average * 7 / 8 + time / 8));
    }

    /// How many fit into `time`, one after the other. At least one, also while no time is known.
    pub(crate) fn how_many_in(&self, time: Duration) -> usize {
        let average = self.time.unwrap_or(time).max(Duration::from_micros(1));
        let count = time.as_micros() / average.as_micros();
        usize::try_from(count).unwrap_or(usize::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_what_happens() {
        let ms = Duration::from_millis;
        let mut average = MovingAverage::default();
        assert_eq!(average.how_many_in(ms(100)), 1);
        average.took(ms(10));
        assert_eq!(average.how_many_in(ms(100)), 10);
        for _ in 0..40 {
            average.took(ms(50));
        }
        assert_eq!(average.how_many_in(ms(100)), 2);
        assert_eq!(average.how_many_in(ms(1)), 1);
    }
}
