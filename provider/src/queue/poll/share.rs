//! The share of this runtime in all polls: dispatch slots in physical partitions, and overdue items
//! everywhere.
//!
//! Runtimes divide the dispatch slots of a single physical partition. With several, each partition
//! belongs to one runtime, or to several that divide its slots if there are more runtimes than
//! partitions. So a runtime polls few partitions. Runtimes that do not know how many they are poll
//! their slots in all of them.
//!
//! Shares spread load, and correctness does not depend on them. The runtime of a share may be busy,
//! may have failed undetected, or may be unable to run an item: an instance of another version, an
//! activity with another tag. So every runtime takes overdue items.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cdb_client::partitions::PhysicalPartitionId;
use cdb_coordination::membership::{LeaseProvider, SlotSet};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::timing::{OVERDUE_AFTER, OVERDUE_POLL, TAKEOVER_TURN};

/// A polled queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PolledQueue {
    Orchestrations,
    Activities,
    /// Undelivered intents.
    Intents,
}

/// The shares of this runtime.
pub(crate) struct Shares {
    leases: Arc<dyn LeaseProvider>,
    /// The time of each queue's last poll that included overdue items.
    last_overdue: Mutex<BTreeMap<PolledQueue, Instant>>,
}

impl Shares {
    pub(crate) fn new(leases: Arc<dyn LeaseProvider>) -> Self {
        Self {
            leases,
            last_overdue: Mutex::default(),
        }
    }

    /// Returns the dispatch slots of this runtime.
    pub(crate) async fn slots(&self) -> SlotSet {
        self.leases.slots().await
    }

    /// Returns the share in the next poll of a queue.
    pub(crate) async fn of_poll(
        &self,
        queue: PolledQueue,
        ranges: Vec<PhysicalPartitionId>,
    ) -> Share {
        let overdue = {
            let mut last = self.last_overdue.lock();
            let overdue = last
                .get(&queue)
                .is_none_or(|at| at.elapsed() >= OVERDUE_POLL);
            if overdue {
                last.insert(queue, Instant::now());
            }
            overdue
        };
        self.share(ranges, overdue).await
    }

    /// Returns the share in all polls.
    pub(crate) async fn widest(&self, ranges: Vec<PhysicalPartitionId>) -> Share {
        self.share(ranges, true).await
    }

    async fn share(&self, ranges: Vec<PhysicalPartitionId>, overdue: bool) -> Share {
        let slots = self.slots().await;
        // All runtimes must number the partitions in the same order.
        let ranges = BTreeSet::from_iter(ranges);
        let own = self.own(ranges.len(), &slots).await;
        Share {
            ranges: ranges.into_iter().zip(own).collect(),
            slots,
            overdue,
        }
    }

    /// Returns the own slots in each of `ranges` physical partitions.
    async fn own(&self, ranges: usize, slots: &SlotSet) -> Vec<SlotSet> {
        let runtimes = self.leases.runtimes().await;
        let Some(runtimes) = runtimes.filter(|_| ranges > 1) else {
            return vec![slots.clone(); ranges];
        };
        let sharers = (runtimes as usize).div_ceil(ranges).clamp(1, 256);
        let parts = u32::try_from(ranges * sharers).unwrap_or(u32::MAX);
        let mut own = vec![SlotSet::NONE; ranges];
        for part in self.leases.parts(parts).await {
            let (sharer, range) = (part as usize / ranges, part as usize % ranges);
            let slots = (0..=u8::MAX).skip(sharer).step_by(sharers);
            slots.for_each(|slot| own[range].insert(slot));
        }
        own
    }
}

/// The share of this runtime in a poll.
#[derive(Debug)]
pub(crate) struct Share {
    /// The physical partitions, each with the own slots in it.
    ranges: BTreeMap<PhysicalPartitionId, SlotSet>,
    /// The slots of this runtime in work that is not divided by partition.
    slots: SlotSet,
    overdue: bool,
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

impl Part<'_> {
    /// Returns whether overdue items of other runtimes are among them.
    pub(crate) fn has_overdue(&self) -> bool {
        matches!(self, Self::Overdue | Self::Slots { overdue: true, .. })
    }
}

impl Share {
    /// Returns whether the container has several physical partitions.
    pub(crate) fn has_many_ranges(&self) -> bool {
        self.ranges.len() > 1
    }

    /// Returns the own slots in a physical partition.
    fn own(&self, range: &PhysicalPartitionId) -> &SlotSet {
        self.ranges.get(range).unwrap_or(&SlotSet::NONE)
    }

    /// Returns whether items of this slot, found in this partition, belong to this runtime.
    pub(crate) fn has(&self, range: &PhysicalPartitionId, slot: u8) -> bool {
        self.own(range).contains(slot)
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

    /// Returns all physical partitions; none for a runtime without a share.
    pub(crate) fn all_ranges(&self) -> Vec<PhysicalPartitionId> {
        self.ranges_with(|_, _| true)
    }

    /// Returns the physical partitions of the share, at least some of their slots.
    pub(crate) fn own_ranges(&self) -> Vec<PhysicalPartitionId> {
        self.ranges_with(|_, own| !own.is_empty())
    }

    /// Returns those of these physical partitions that still exist. A runtime without a share polls
    /// none.
    pub(crate) fn existing(
        &self,
        wanted: &BTreeSet<PhysicalPartitionId>,
    ) -> Vec<PhysicalPartitionId> {
        self.ranges_with(|range, _| wanted.contains(range))
    }

    fn ranges_with(
        &self,
        has: impl Fn(&PhysicalPartitionId, &SlotSet) -> bool,
    ) -> Vec<PhysicalPartitionId> {
        if self.slots.is_empty() && self.ranges.values().all(SlotSet::is_empty) {
            return Vec::new();
        }
        let ranges = self.ranges.iter().filter(|(range, own)| has(range, own));
        ranges.map(|(range, _)| range.clone()).collect()
    }

    /// Returns the part of a physical partition that belongs to the share.
    pub(crate) fn part(&self, range: &PhysicalPartitionId) -> Part<'_> {
        self.part_of(self.own(range))
    }

    /// Returns the part of all physical partitions that one query for the share finds.
    pub(crate) fn part_of_all(&self) -> Part<'_> {
        let mut own = self.ranges.values();
        match own.next() {
            Some(first) if own.all(|other| other == first) => self.part_of(first),
            _ => Part::All,
        }
    }

    fn part_of<'a>(&self, slots: &'a SlotSet) -> Part<'a> {
        if slots.is_all() {
            Part::All
        } else if slots.is_empty() {
            Part::Overdue
        } else {
            let overdue = self.overdue;
            Part::Slots { slots, overdue }
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use cdb_coordination::membership::InMemoryLeaseProvider;

    use super::*;

    fn ranges(count: usize) -> Vec<PhysicalPartitionId> {
        let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        serde_json::from_value(serde_json::json!(ids)).expect("a range id is a string")
    }

    async fn share(index: u32, of: u32, partitions: usize) -> Share {
        let shares = Shares::new(Arc::new(InMemoryLeaseProvider::share(index, of)));
        shares.widest(ranges(partitions)).await
    }

    #[tokio::test(start_paused = true)]
    async fn polls_include_overdue_items_at_intervals() {
        let shares = Shares::new(Arc::new(InMemoryLeaseProvider::share(0, 2)));
        let next = async |queue| shares.of_poll(queue, ranges(1)).await.overdue;
        assert!(next(PolledQueue::Orchestrations).await);
        assert!(next(PolledQueue::Activities).await);
        assert!(!next(PolledQueue::Orchestrations).await);
        tokio::time::advance(OVERDUE_POLL).await;
        assert!(next(PolledQueue::Orchestrations).await);
        assert!(shares.widest(ranges(1)).await.overdue);
    }

    /// Returns how many runtimes have each slot of each partition, and the most partitions that one
    /// of them polls.
    async fn owners(runtimes: u32, partitions: usize) -> (Vec<u32>, usize) {
        let (mut owners, mut most) = (vec![0; partitions * 256], 0);
        for index in 0..runtimes {
            let share = share(index, runtimes, partitions).await;
            for (at, range) in ranges(partitions).iter().enumerate() {
                for slot in share.own(range).iter() {
                    owners[at * 256 + usize::from(slot)] += 1;
                }
                let part = share.part(range);
                // Such a partition is searched as a whole, and not for new items only.
                assert_eq!(part.has_overdue(), part != Part::All);
                match part {
                    Part::All => assert!(share.own_ranges().contains(range)),
                    Part::Overdue => assert!(!share.own_ranges().contains(range)),
                    Part::Slots { slots, overdue } => assert!(overdue && !slots.is_empty()),
                }
            }
            most = most.max(share.own_ranges().len());
        }
        (owners, most)
    }

    #[tokio::test]
    async fn each_slot_of_each_partition_belongs_to_one_runtime_that_polls_few_partitions() {
        for (runtimes, partitions, most_polled) in [
            (1, 50, 50),
            (3, 1, 1),
            (3, 2, 2),
            (3, 5, 2),
            (8, 10, 2),
            (8, 100, 13),
            (50, 10, 1),
            (50, 50, 1),
            (51, 50, 2),
            (50, 100, 2),
        ] {
            let (owners, most) = owners(runtimes, partitions).await;
            assert!(owners.iter().all(|owners| *owners == 1));
            assert_eq!(most, most_polled, "{runtimes} on {partitions}");
        }
    }

    /// A provider that does not know how many runtimes there are.
    struct SlotsOnly(SlotSet);

    #[async_trait]
    impl LeaseProvider for SlotsOnly {
        async fn slots(&self) -> SlotSet {
            self.0.clone()
        }
    }

    #[tokio::test]
    async fn a_runtime_that_does_not_know_the_others_polls_its_slots_in_all_partitions() {
        let shares = Shares::new(Arc::new(SlotsOnly([3, 200].into_iter().collect())));
        let share = shares.widest(ranges(4)).await;
        assert_eq!(share.own_ranges(), ranges(4));
        let part = share.part_of_all();
        assert!(matches!(part, Part::Slots { slots, overdue: true } if slots.len() == 2));
        assert!(share.has(&ranges(4)[2], 3) && !share.has(&ranges(4)[2], 4));
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
        assert!(alone.part(&ranges(1)[0]) == Part::All);
        let left = Shares::new(Arc::new(SlotsOnly(SlotSet::NONE)));
        let left = left.widest(ranges(50)).await;
        assert!(left.own_ranges().is_empty() && left.all_ranges().is_empty());
        assert!(left.existing(&ranges(2).into_iter().collect()).is_empty());
    }
}
