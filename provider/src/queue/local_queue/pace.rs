//! How often a queue is polled, and for how many items. The interval is the minimum after a poll that
//! found work, and doubles after each empty poll.

use std::time::{Duration, Instant};

use cdb_client::partitions::PhysicalPartitionId;
use cdb_coordination::search::Windows;

use crate::timing::{BUSY_FOR, BUSY_POLL};

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
    pub(crate) fn new(min: Duration, max: Duration, now: Instant) -> Self {
        Self {
            min,
            max: max.max(min),
            interval: min,
            next: now,
            busy_until: None,
        }
    }

    /// Returns the time of the next poll.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Returns whether the next poll is late by the longest interval.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        now >= self.next + self.max
    }

    /// Returns whether a poll was less than the longest interval ago.
    pub(crate) fn is_recent(&self, poll: Instant, now: Instant) -> bool {
        now < poll + self.max
    }

    /// Returns the interval between the last two polls.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// Notes the end of a poll.
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

    /// Notes work that this process knows without a poll.
    pub(crate) fn busy(&mut self, now: Instant) {
        self.busy_until = Some(now + BUSY_FOR);
        self.next = self.next.min(now + BUSY_POLL.max(self.min));
    }

    /// Resets the interval to the minimum, because only a poll can find the work that may have
    /// arrived.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.interval = self.min;
        self.next = self.next.min(now + self.min);
    }
}

/// The candidates per dispatcher that are enough for a poll, so that one poll serves several fetches.
const PREFETCH_PER_DISPATCHER: u32 = 2;
/// The fewest candidates that are enough. Runtimes that find the same candidates can then begin with
/// different ones.
const MIN_PREFETCH: u32 = 32;

/// The polls of a queue.
#[derive(Debug)]
pub(crate) struct Polls {
    /// The items that are enough for one poll of all physical partitions, if they can run.
    pub(crate) enough: u32,
    pub(crate) windows: Windows<PhysicalPartitionId>,
}

impl Polls {
    /// Returns the polls of a queue with this number of dispatchers.
    pub(super) fn new(dispatchers: u32) -> Self {
        let prefetch = dispatchers.saturating_mul(PREFETCH_PER_DISPATCHER);
        Self {
            enough: prefetch.max(MIN_PREFETCH),
            windows: Windows::default(),
        }
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
        let mut pace = Pace::new(ms(50), ms(300), start);
        assert_eq!(gaps(&mut pace, start), [ms(100), ms(200), ms(300), ms(300)]);
        pace.polled(true, start);
        assert_eq!(pace.next() - start, ms(50));
    }

    #[test]
    fn a_working_process_polls_at_the_busy_interval() {
        let start = Instant::now();
        let mut pace = Pace::new(ms(50), ms(1000), start);
        gaps(&mut pace, start);
        pace.busy(start);
        assert_eq!(pace.next() - start, ms(100));
        assert_eq!(gaps(&mut pace, start), [ms(100); 4]);
        // 400, 800, 1000 ms once the work is done.
        let later = start + ms(300);
        assert_eq!(
            gaps(&mut pace, later),
            [ms(200), ms(400), ms(800), ms(1000)]
        );
    }
}
