//! The share of this runtime in all polls: physical partitions or dispatch slots of its own, and
//! overdue items everywhere.
//!
//! With at least twice as many physical partitions as runtimes, each runtime polls partitions of
//! its own, so that a poll need not visit all of them. With fewer, each polls the dispatch slots of
//! its own in every partition.
//!
//! Shares spread load, and correctness does not depend on them. The runtime of a share may be busy,
//! may have failed undetected, or may be unable to run an item: an instance of another version, an
//! activity with another tag. So every runtime takes overdue items.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_client::RangeId;
use cdb_coordination::{LeaseProvider, Membership, SlotSet};
use tokio::time::Instant;

use crate::documents::dispatch_slot;
use crate::mutex::lock;

/// The time after which an item is overdue, so that runtimes of other shares take it.
pub(crate) const OVERDUE_AFTER: Duration = Duration::from_secs(5);

/// The time between two polls that include overdue items. Under overload the oldest items of every
/// share are overdue, and all runtimes would query for the same items.
const OVERDUE_INTERVAL: Duration = Duration::from_secs(2);

/// The time after which another runtime takes over overdue items of a slot.
const TAKEOVER_TURN: Duration = Duration::from_secs(10);

/// A polled queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolledQueue {
    Orchestrations,
    Activities,
}

/// The shares of this runtime.
pub(crate) struct Shares {
    leases: Arc<dyn LeaseProvider>,
    membership: Option<Arc<Membership>>,
    /// The time of each queue's last poll that included overdue items.
    last_overdue: [Mutex<Option<Instant>>; 2],
}

impl Shares {
    pub(crate) fn new(leases: Arc<dyn LeaseProvider>, membership: Option<Arc<Membership>>) -> Self {
        Self {
            leases,
            membership,
            last_overdue: Default::default(),
        }
    }

    /// Returns the dispatch slots of this runtime.
    pub(crate) async fn slots(&self) -> SlotSet {
        self.leases.slots().await
    }

    /// Returns the share in the next poll of a queue.
    pub(crate) async fn of_poll(&self, queue: PolledQueue, ranges: Vec<RangeId>) -> Share {
        let slots = self.slots().await;
        let mut last = lock(match queue {
            PolledQueue::Orchestrations => &self.last_overdue[0],
            PolledQueue::Activities => &self.last_overdue[1],
        });
        let overdue = last.is_none_or(|at| at.elapsed() >= OVERDUE_INTERVAL);
        if overdue {
            *last = Some(Instant::now());
        }
        Share::new(ranges, self.runtimes(&slots), slots, overdue)
    }

    /// Returns the share in all polls.
    pub(crate) async fn widest(&self, ranges: Vec<RangeId>) -> Share {
        let slots = self.slots().await;
        Share::new(ranges, self.runtimes(&slots), slots, true)
    }

    /// Returns the number of runtimes that divide the work. All of them must agree on it, so
    /// members count the roster: their numbers of slots differ.
    fn runtimes(&self, slots: &SlotSet) -> usize {
        let members = self.membership.as_ref();
        let members = members.map(|membership| membership.view().members().len());
        // A runtime with one of n equal shares serves about 256 / n slots.
        members.unwrap_or_else(|| 256_usize.div_ceil(slots.iter().count().max(1)))
    }
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares")
            .field("last_overdue", &self.last_overdue)
            .finish_non_exhaustive()
    }
}

/// The share of this runtime in a poll.
#[derive(Debug)]
pub(crate) struct Share {
    ranges: Vec<RangeId>,
    slots: SlotSet,
    overdue: bool,
    /// Whether the runtimes share the physical partitions instead of the slots.
    by_range: bool,
}

/// The due items of a physical partition that belong to a share.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    All,
    /// Items of these slots, and overdue items if `overdue` is set.
    Slots {
        slots: &'a SlotSet,
        overdue: bool,
    },
    Overdue,
}

impl Share {
    fn new(ranges: Vec<RangeId>, runtimes: usize, slots: SlotSet, overdue: bool) -> Self {
        Self {
            by_range: runtimes > 1 && ranges.len() >= 2 * runtimes,
            ranges,
            slots,
            overdue,
        }
    }

    /// Returns whether the container has several physical partitions.
    pub(crate) fn has_many_ranges(&self) -> bool {
        self.ranges.len() > 1
    }

    /// Returns whether the share has most of the physical partitions, so that one query of all is
    /// cheaper than one of each.
    pub(crate) fn is_wide(&self) -> bool {
        let own = self.ranges.iter().filter(|range| self.is_own(range));
        2 * own.count() > self.ranges.len()
    }

    /// Returns whether a physical partition belongs to this runtime, at least some of its slots.
    fn is_own(&self, range: &RangeId) -> bool {
        !self.by_range || self.slots.contains(dispatch_slot(&range.to_string()))
    }

    /// Returns whether items of this slot, found in this partition, belong to this runtime.
    pub(crate) fn has(&self, range: &RangeId, slot: u8) -> bool {
        if self.by_range {
            self.is_own(range)
        } else {
            self.slots.contains(slot)
        }
    }

    /// Returns whether this runtime takes over an item of another share that is overdue. At any
    /// time, one runtime takes over the items of a slot. It changes, because it may have failed
    /// too.
    pub(crate) fn takes_over(&self, slot: u8, late_by: Duration) -> bool {
        let Some(overdue) = late_by.checked_sub(OVERDUE_AFTER) else {
            return false;
        };
        let turn = 1 + overdue.as_secs() / TAKEOVER_TURN.as_secs();
        // An odd step visits all 256 slots.
        let of = (u64::from(slot) + turn * 97) % 256;
        u8::try_from(of).is_ok_and(|slot| self.slots.contains(slot))
    }

    /// Returns all physical partitions; none for a runtime without slots.
    pub(crate) fn all_ranges(&self) -> Vec<RangeId> {
        if self.slots.is_empty() {
            return Vec::new();
        }
        self.ranges.clone()
    }

    /// Returns the physical partitions of the share.
    pub(crate) fn own_ranges(&self) -> Vec<RangeId> {
        if self.slots.is_empty() {
            return Vec::new();
        }
        let ranges = self.ranges.iter().filter(|range| self.is_own(range));
        ranges.cloned().collect()
    }

    /// Returns those of these physical partitions that still exist. A runtime without slots polls
    /// none.
    pub(crate) fn existing(&self, wanted: &BTreeSet<RangeId>) -> Vec<RangeId> {
        let ranges = self.ranges.iter();
        let ranges = ranges.filter(|range| !self.slots.is_empty() && wanted.contains(range));
        ranges.cloned().collect()
    }

    /// Returns the part of a physical partition that belongs to the share.
    pub(crate) fn part(&self, range: &RangeId) -> Part<'_> {
        match self.by_range {
            true if self.is_own(range) => Part::All,
            true => Part::Overdue,
            false if self.slots.is_all() => Part::All,
            false => self.slots(),
        }
    }

    /// Returns the part of all physical partitions that one query for the share finds.
    pub(crate) fn part_of_all(&self) -> Part<'_> {
        if self.by_range || self.slots.is_all() {
            Part::All
        } else {
            self.slots()
        }
    }

    fn slots(&self) -> Part<'_> {
        Part::Slots {
            slots: &self.slots,
            overdue: self.overdue,
        }
    }
}

#[cfg(test)]
mod tests {
    use cdb_coordination::InMemoryLeaseProvider;

    use super::*;

    fn ranges(count: usize) -> Vec<RangeId> {
        let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        serde_json::from_value(serde_json::json!(ids)).expect("a range id is a string")
    }

    async fn share(index: u32, of: u32, partitions: usize) -> Share {
        let shares = Shares::new(Arc::new(InMemoryLeaseProvider::share(index, of)), None);
        shares.widest(ranges(partitions)).await
    }

    #[tokio::test(start_paused = true)]
    async fn polls_include_overdue_items_at_intervals() {
        let shares = Shares::new(Arc::new(InMemoryLeaseProvider::share(0, 2)), None);
        let next = async |queue| shares.of_poll(queue, ranges(1)).await.overdue;
        assert!(next(PolledQueue::Orchestrations).await);
        assert!(next(PolledQueue::Activities).await);
        assert!(!next(PolledQueue::Orchestrations).await);
        tokio::time::advance(OVERDUE_INTERVAL).await;
        assert!(next(PolledQueue::Orchestrations).await);
        assert!(shares.widest(ranges(1)).await.overdue);
    }

    #[tokio::test]
    async fn runtimes_share_slots_while_there_are_few_partitions() {
        for partitions in [1, 2, 5] {
            let share = share(0, 3, partitions).await;
            assert_eq!(share.own_ranges(), ranges(partitions));
            let part = share.part(&ranges(1)[0]);
            assert!(matches!(part, Part::Slots { slots, overdue: true } if slots.len() == 86));
            assert!(share.has(&ranges(1)[0], 0) && !share.has(&ranges(1)[0], 1));
        }
    }

    #[tokio::test]
    async fn each_of_many_partitions_belongs_to_one_runtime_and_is_overdue_for_the_others() {
        let mut owners = vec![0; 100];
        for index in 0..8 {
            let share = share(index, 8, 100).await;
            for (at, range) in ranges(100).iter().enumerate() {
                match share.part(range) {
                    Part::All => owners[at] += 1,
                    part => assert_eq!(part, Part::Overdue),
                }
            }
            assert!((3..=30).contains(&share.own_ranges().len()));
            assert!(!share.is_wide());
        }
        assert!(owners.iter().all(|owners| *owners == 1), "{owners:?}");
    }

    #[tokio::test]
    async fn one_runtime_at_a_time_takes_over_an_overdue_item_and_each_has_its_turn() {
        for runtimes in [2, 3, 8] {
            let mut takers = Vec::new();
            for index in 0..runtimes {
                let share = share(index, runtimes, 1).await;
                let late_by = |turn: &u32| OVERDUE_AFTER + TAKEOVER_TURN * *turn;
                let turns = (0..64).filter(|turn| share.takes_over(7, late_by(turn)));
                let before = takers.len();
                takers.extend(turns);
                assert!(takers.len() > before, "{index} of {runtimes} has no turn");
            }
            takers.sort_unstable();
            assert_eq!(takers, (0..64).collect::<Vec<_>>());
        }
        assert!(!share(0, 1, 1).await.takes_over(7, OVERDUE_AFTER / 2));
    }

    #[tokio::test]
    async fn a_single_runtime_polls_everything_and_one_without_slots_nothing() {
        let alone = share(0, 1, 50).await;
        assert_eq!(alone.own_ranges().len(), 50);
        assert!(alone.is_wide() && alone.part(&ranges(1)[0]) == Part::All);
        let left = Share::new(ranges(50), 256, SlotSet::NONE, true);
        assert!(left.own_ranges().is_empty());
        assert!(left.existing(&ranges(2).into_iter().collect()).is_empty());
    }

    #[test]
    fn a_member_with_few_slots_shares_the_partitions_like_the_others() {
        let members: Vec<String> = (0..50).map(|number| format!("member-{number}")).collect();
        let mut owned = 0;
        for member in &members {
            let slots = SlotSet::of_member(&members, member);
            let share = Share::new(ranges(100), members.len(), slots, true);
            let own = share.own_ranges();
            assert!(own.iter().all(|range| share.part(range) == Part::All));
            owned += own.len();
        }
        assert_eq!(owned, 100);
    }
}
