//! The slots of a rate that a runtime has reserved: numbered times at which one item each may start.

use std::collections::VecDeque;
use std::time::Duration;

use super::Time;
use super::timing::{CHOSEN_WITHIN, LAPSE};

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
    fn lapse(&mut self, now: Time) {
        while self
            .reserved
            .front()
            .is_some_and(|slot| has_lapsed(*slot, now))
        {
            self.reserved.pop_front();
        }
    }

    /// Returns how many items may start now.
    pub(crate) fn due(&self, now: Time) -> usize {
        let lapsed = self.reserved.partition_point(|slot| has_lapsed(*slot, now));
        self.reserved.partition_point(|slot| *slot <= now) - lapsed
    }

    /// Returns how many slots have not lapsed.
    pub(crate) fn len(&self, now: Time) -> usize {
        self.reserved.len() - self.reserved.partition_point(|slot| has_lapsed(*slot, now))
    }

    /// Uses the oldest slot.
    pub(crate) fn take(&mut self, now: Time) -> Option<Time> {
        self.lapse(now);
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
        let next = self.reserved.partition_point(|slot| *slot <= now);
        self.reserved.get(next).copied()
    }

    pub(crate) fn clear(&mut self) {
        self.reserved.clear();
    }
}

/// Returns whether no item may be chosen for a slot any more.
fn has_lapsed(slot: Time, now: Time) -> bool {
    slot + CHOSEN_WITHIN < now
}

/// Returns whether an item may still start with a slot that it was chosen for.
pub(crate) fn is_usable(slot: Time, now: Time) -> bool {
    now <= slot + LAPSE
}
