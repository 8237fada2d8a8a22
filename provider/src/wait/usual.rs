//! How long something usually takes here.

use std::time::Duration;

/// A running average that follows the last dozen or so.
#[derive(Debug, Default)]
pub(crate) struct Usual {
    time: Option<Duration>,
}

impl Usual {
    /// One more has ended.
    pub(crate) fn took(&mut self, time: Duration) {
        self.time = Some(self.time.map_or(time, |usual| usual * 7 / 8 + time / 8));
    }

    /// How many of them fit into `time`, one after the other; one at least, also while nothing is known.
    pub(crate) fn how_many_in(&self, time: Duration) -> usize {
        let usual = self.time.unwrap_or(time).max(Duration::from_micros(1));
        let count = time.as_micros() / usual.as_micros();
        usize::try_from(count).unwrap_or(usize::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_what_happens() {
        let ms = Duration::from_millis;
        let mut usual = Usual::default();
        assert_eq!(usual.how_many_in(ms(100)), 1);
        usual.took(ms(10));
        assert_eq!(usual.how_many_in(ms(100)), 10);
        for _ in 0..40 {
            usual.took(ms(50));
        }
        assert_eq!(usual.how_many_in(ms(100)), 2);
        assert_eq!(usual.how_many_in(ms(1)), 1);
    }
}
