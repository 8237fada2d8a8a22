//! How often a queue is polled: fast while something comes, slower and slower while nothing does.

use std::time::Duration;

use tokio::time::Instant;

/// The time of the next poll, and the interval that leads to it.
#[derive(Debug)]
pub(crate) struct Pace {
    min: Duration,
    max: Duration,
    interval: Duration,
    next: Instant,
}

impl Pace {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self {
            min,
            max: max.max(min),
            interval: min,
            next: Instant::now(),
        }
    }

    /// When the next poll is due.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// A poll has ended.
    pub(crate) fn polled(&mut self, found: bool, now: Instant) {
        self.interval = if found {
            self.min
        } else {
            (self.interval * 2).min(self.max)
        };
        self.next = now + self.interval;
    }

    /// Something happened here, so others may be busy too.
    pub(crate) fn quicken(&mut self, now: Instant) {
        self.interval = self.min;
        self.next = self.next.min(now + self.min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_polls_slow_down_to_the_maximum_and_work_speeds_up_again() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut pace = Pace::new(ms(50), ms(300));
        let mut gaps = Vec::new();
        for _ in 0..4 {
            pace.polled(false, start);
            gaps.push(pace.next() - start);
        }
        assert_eq!(gaps, [ms(100), ms(200), ms(300), ms(300)]);
        pace.polled(true, start);
        assert_eq!(pace.next() - start, ms(50));
    }
}
