//! The slots of a rate that a runtime has reserved: numbered times at which one item each may start.

use std::collections::VecDeque;
use std::time::Duration;

use super::Time;
use super::rule::LAPSE;

/// The part of [`LAPSE`] in which an item may be chosen. The rest is for the request that locks the item.
const CHOSEN_WITHIN: Duration = Duration::from_millis(600);

/// The slots of one runtime and key, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    reserved: VecDeque<Time>,
}

impl Slots {
    /// Adds `count` slots that end before `tat`.
    pub(crate) fn add(&mut self, tat: Time, interval: Duration, count: u32) {
        for back in (1..=count).rev() {
            let slot = tat.saturating_sub(interval.saturating_mul(back));
            self.reserved.push_back(slot);
        }
        self.reserved.make_contiguous().sort();
    }

    /// Removes the slots that have lapsed.
    pub(crate) fn lapse(&mut self, now: Time) {
        while self
            .reserved
            .front()
            .is_some_and(|slot| *slot + CHOSEN_WITHIN < now)
        {
            self.reserved.pop_front();
        }
    }

    /// Returns how many items may start now.
    pub(crate) fn due(&self, now: Time) -> usize {
        self.reserved.partition_point(|slot| *slot <= now)
    }

    pub(crate) fn len(&self) -> usize {
        self.reserved.len()
    }

    /// Uses the oldest slot.
    pub(crate) fn take(&mut self, now: Time) -> Option<Time> {
        self.reserved.front().filter(|slot| **slot <= now)?;
        self.reserved.pop_front()
    }

    /// Returns a slot whose item did not start.
    pub(crate) fn put_back(&mut self, slot: Time) {
        let at = self.reserved.partition_point(|other| *other < slot);
        self.reserved.insert(at, slot);
    }

    /// Returns the time of the next slot after `now`.
    pub(crate) fn next_after(&self, now: Time) -> Option<Time> {
        self.reserved.get(self.due(now)).copied()
    }

    pub(crate) fn clear(&mut self) {
        self.reserved.clear();
    }
}

/// Returns whether an item may still start with a slot that it was chosen for.
pub(crate) fn is_usable(slot: Time, now: Time) -> bool {
    now <= slot + LAPSE
}
