//! The due items that a probe has found, by queue and physical partition.

use std::collections::{BTreeMap, BTreeSet};

use cdb_client::partitions::PhysicalPartitionId;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::share::{PolledQueue, Share};

/// The physical partitions to poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Items are due in these partitions only.
    In(BTreeSet<PhysicalPartitionId>),
    /// Items may be due in any partition.
    Anywhere,
}

impl Due {
    /// Returns the partitions of the share to poll.
    pub(crate) fn ranges(&self, share: &Share) -> Vec<PhysicalPartitionId> {
        match self {
            Self::In(ranges) => share.existing(ranges),
            Self::Anywhere => share.own_ranges(),
        }
    }

    /// Returns the partitions with due items, also those of other shares.
    pub(crate) fn all_ranges(&self, share: &Share) -> Vec<PhysicalPartitionId> {
        match self {
            Self::In(ranges) => share.existing(ranges),
            Self::Anywhere => share.all_ranges(),
        }
    }

    /// Adds a partition.
    fn add(&mut self, range: PhysicalPartitionId) {
        if let Self::In(ranges) = self {
            ranges.insert(range);
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::In(ranges) if ranges.is_empty())
    }
}

/// What the probes have found. Concurrent callers share one probe.
#[derive(Debug, Default)]
pub(crate) struct LastProbe(pub(super) Mutex<ProbeState>);

#[derive(Debug, Default)]
pub(crate) struct ProbeState {
    /// The time of the last probe, and its answer.
    pub(super) last: Option<(Instant, DueItems)>,
    /// The time of the last probe for overdue items of other shares.
    pub(super) overdue_at: Option<Instant>,
    /// The partitions with overdue items of other shares, kept until a poll takes them: the next
    /// probe does not search for them again.
    overdue: BTreeMap<PolledQueue, BTreeSet<PhysicalPartitionId>>,
}

impl ProbeState {
    /// Notes the partitions with overdue items of other shares.
    pub(super) fn add_overdue(&mut self, found: &DueItems) {
        for (queue, due) in &found.0 {
            if let Due::In(ranges) = due {
                let overdue = self.overdue.entry(*queue).or_default();
                overdue.extend(ranges.iter().cloned());
            }
        }
    }

    /// Returns whether a poll of this queue can find items.
    pub(super) fn has_items(&self, queue: PolledQueue) -> bool {
        let due = self.last.as_ref().and_then(|(_, due)| due.of(queue));
        let overdue = self.overdue.get(&queue);
        due.is_some_and(|due| !due.is_nothing()) || overdue.is_some_and(|due| !due.is_empty())
    }

    /// Returns the partitions that the next poll of a queue has to visit.
    pub(super) fn take(&mut self, queue: PolledQueue) -> Due {
        let due = self.last.as_ref().and_then(|(_, due)| due.of(queue));
        let mut due = due.cloned().unwrap_or(Due::Anywhere);
        if let Due::In(ranges) = &mut due {
            ranges.extend(self.overdue.remove(&queue).unwrap_or_default());
        }
        due
    }
}

/// The queues that polls fill.
pub(super) const QUEUES: [PolledQueue; 3] = [
    PolledQueue::Orchestrations,
    PolledQueue::Activities,
    PolledQueue::Intents,
];

/// The due items that a probe has found, by queue. A queue is missing if the probe did not query for
/// it.
#[derive(Clone, Debug)]
pub(crate) struct DueItems(BTreeMap<PolledQueue, Due>);

impl DueItems {
    /// Returns no due items, for a probe that queries for the queues that `needs_items`.
    pub(super) fn nothing(needs_items: impl Fn(PolledQueue) -> bool) -> Self {
        let queues = QUEUES.into_iter().filter(|queue| needs_items(*queue));
        let nothing = Due::In(BTreeSet::new());
        Self(queues.map(|queue| (queue, nothing.clone())).collect())
    }

    /// Returns the same queues, each with these due items.
    pub(super) fn all(self, due: &Due) -> Self {
        let queues = self.0.into_keys();
        Self(queues.map(|queue| (queue, due.clone())).collect())
    }

    /// Returns the due items of a queue; `None` if the probe did not query for them.
    pub(super) fn of(&self, queue: PolledQueue) -> Option<&Due> {
        self.0.get(&queue)
    }

    /// Adds the partition of a due item, if the item is overdue or belongs to the share.
    pub(super) fn add(&mut self, found: &Found, share: &Share, range: PhysicalPartitionId) {
        if let Some(due) = self.0.get_mut(&found.queue)
            && (found.is_overdue || share.has(&range, found.slot))
        {
            due.add(range);
        }
    }

    /// Adds a partition with unknown items.
    pub(super) fn add_all(&mut self, range: &PhysicalPartitionId) {
        let queues = self.0.values_mut();
        queues.for_each(|due| due.add(range.clone()));
    }
}

/// A due item.
pub(super) struct Found {
    pub(super) queue: PolledQueue,
    /// The dispatch slot of the item, or of the intent's sender.
    pub(super) slot: u8,
    pub(super) is_overdue: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_with_overdue_items_is_kept_until_a_poll_of_their_queue_takes_it() {
        let range: PhysicalPartitionId =
            serde_json::from_str("\"7\"").expect("a range id is a string");
        let nothing = || DueItems::nothing(|_| true);
        let mut state = ProbeState::default();
        let mut found = nothing();
        let activities = PolledQueue::Activities;
        found.0.insert(activities, Due::In([range.clone()].into()));
        state.add_overdue(&found);
        state.last = Some((Instant::now(), nothing()));
        // Another caller probes before the activities are polled.
        assert!(state.take(PolledQueue::Intents).is_nothing());
        state.last = Some((Instant::now(), nothing()));
        assert!(!state.has_items(PolledQueue::Orchestrations));
        assert!(state.has_items(PolledQueue::Activities));
        assert_eq!(state.take(activities), Due::In([range].into()));
        assert!(state.take(activities).is_nothing());
    }
}
