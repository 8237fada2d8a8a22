//! How often a queue is polled: fast while something comes, slower and slower while nothing does.

use std::time::Duration;

use tokio::time::Instant;

/// The longest time between two polls while this process is at work: so soon is the work of others seen then.
const BUSY_POLL: Duration = Duration::from_millis(100);

/// How long after its last work a process counts as at work.
const BUSY_FOR: Duration = Duration::from_millis(250);

/// The time of the next poll, and the interval that leads to it.
#[derive(Debug)]
pub(crate) struct Pace {
    min: Duration,
    max: Duration,
    interval: Duration,
    next: Instant,
    busy_until: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self {
            min,
            max: max.max(min),
            interval: min,
            next: Instant::now(),
            busy_until: None,
        }
    }

    /// When the next poll is due.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// How long the last poll was waited for.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// A poll has ended.
    pub(crate) fn polled(&mut self, found: bool, now: Instant) {
        let longest = if self.busy_until >= Some(now) {
            self.max.min(BUSY_POLL.max(self.min))
        } else {
            self.max
        };
        self.interval = if found {
            self.min
        } else {
            (self.interval * 2).min(longest)
        };
        self.next = now + self.interval;
    }

    /// This process has work, which it knows of without a poll.
    pub(crate) fn busy(&mut self, now: Instant) {
        self.busy_until = Some(now + BUSY_FOR);
        self.next = self.next.min(now + BUSY_POLL.max(self.min));
    }

    /// Something may have come that only a poll can find.
    pub(crate) fn quicken(&mut self, now: Instant) {
        self.interval = self.min;
        self.next = self.next.min(now + self.min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn gaps(pace: &mut Pace, now: Instant) -> [Duration; 4] {
        std::array::from_fn(|_| {
            pace.polled(false, now);
            pace.next() - now
        })
    }

    #[test]
    fn empty_polls_slow_down_to_the_maximum_and_work_speeds_up_again() {
        let start = Instant::now();
        let mut pace = Pace::new(ms(50), ms(300));
        assert_eq!(gaps(&mut pace, start), [ms(100), ms(200), ms(300), ms(300)]);
        pace.polled(true, start);
        assert_eq!(pace.next() - start, ms(50));
    }

    #[test]
    fn a_process_at_work_looks_for_the_work_of_others_too() {
        let start = Instant::now();
        let mut pace = Pace::new(ms(50), ms(1000));
        gaps(&mut pace, start);
        pace.busy(start);
        assert_eq!(pace.next() - start, ms(100));
        assert_eq!(gaps(&mut pace, start), [ms(100); 4]);
        // 400, 800, 1000 ms once its work is done.
        let later = start + ms(300);
        assert_eq!(
            gaps(&mut pace, later),
            [ms(200), ms(400), ms(800), ms(1000)]
        );
    }
}
