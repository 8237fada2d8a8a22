//! The due items that a probe has found, by queue and physical partition.

use std::collections::BTreeSet;

use cdb_client::RangeId;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::share::{PolledQueue, Share};

/// The physical partitions to poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Items are due in these partitions only.
    In(BTreeSet<RangeId>),
    /// Overdue items are in these partitions only. Items may be due in others.
    OverdueIn(BTreeSet<RangeId>),
    /// Items may be due in any partition.
    Anywhere,
}

impl Due {
    /// Returns the partitions of the share to poll.
    pub(crate) fn ranges(&self, share: &Share) -> Vec<RangeId> {
        match self {
            Self::In(ranges) | Self::OverdueIn(ranges) => share.existing(ranges),
            Self::Anywhere => share.own_ranges(),
        }
    }

    /// Returns the partitions with due items, also those of other shares.
    pub(crate) fn all_ranges(&self, share: &Share) -> Vec<RangeId> {
        match self {
            Self::In(ranges) | Self::OverdueIn(ranges) => share.existing(ranges),
            Self::Anywhere => share.all_ranges(),
        }
    }

    /// Adds a partition.
    fn add(&mut self, range: RangeId) {
        if let Self::In(ranges) | Self::OverdueIn(ranges) = self {
            ranges.insert(range);
        }
    }

    /// Returns whether a poll of these partitions finds all due items of the share.
    pub(crate) fn is_complete(&self) -> bool {
        !matches!(self, Self::OverdueIn(_))
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::In(ranges) | Self::OverdueIn(ranges) if ranges.is_empty())
    }
}

/// What the probes have found. Concurrent callers share one probe.
#[derive(Debug, Default)]
pub(crate) struct LastProbe(pub(super) Mutex<ProbeState>);

#[derive(Debug, Default)]
pub(crate) struct ProbeState {
    /// The time of the last probe, and its answer.
    pub(super) last: Option<(Instant, DueItems)>,
    /// The time from which on the gateway may probe again after a failure.
    pub(super) gateway_retry_at: Option<Instant>,
    /// The time of the last probe for overdue items of other shares.
    pub(super) overdue_at: Option<Instant>,
    /// The number of probes for overdue items that found more than they returned.
    pub(super) crowded: usize,
    /// The partitions with overdue items of other shares, kept until a poll takes them: the next
    /// probe does not search for them again.
    overdue: Overdue,
}

impl ProbeState {
    /// Notes the partitions with overdue items of other shares.
    pub(super) fn add_overdue(&mut self, found: &DueItems) {
        for queue in QUEUES {
            if let Some(Due::In(ranges)) = found.of(queue) {
                self.overdue.of(queue).extend(ranges.iter().cloned());
            }
        }
    }

    /// Returns whether a poll of this queue can find items.
    pub(super) fn has_items(&mut self, queue: PolledQueue) -> bool {
        let queue = Some(queue);
        let due = self.last.as_ref().and_then(|(_, due)| due.of(queue));
        due.is_some_and(|due| !due.is_nothing()) || !self.overdue.of(queue).is_empty()
    }

    /// Returns the partitions that the next poll of a queue has to visit.
    pub(super) fn take(&mut self, queue: Option<PolledQueue>) -> Due {
        let due = self.last.as_ref().and_then(|(_, due)| due.of(queue));
        let mut due = due.cloned().unwrap_or(Due::Anywhere);
        if let Due::In(ranges) | Due::OverdueIn(ranges) = &mut due {
            ranges.append(self.overdue.of(queue));
        }
        due
    }
}

/// The queues, and `None` for undelivered intents.
const QUEUES: [Option<PolledQueue>; 3] = [
    Some(PolledQueue::Orchestrations),
    Some(PolledQueue::Activities),
    None,
];

#[derive(Debug, Default)]
struct Overdue {
    orchestrations: BTreeSet<RangeId>,
    activities: BTreeSet<RangeId>,
    intents: BTreeSet<RangeId>,
}

impl Overdue {
    fn of(&mut self, queue: Option<PolledQueue>) -> &mut BTreeSet<RangeId> {
        match queue {
            Some(PolledQueue::Orchestrations) => &mut self.orchestrations,
            Some(PolledQueue::Activities) => &mut self.activities,
            None => &mut self.intents,
        }
    }
}

/// The due items that a probe has found.
#[derive(Clone, Debug)]
pub(crate) struct DueItems {
    /// `None` if the probe did not query for the queue.
    orchestrations: Option<Due>,
    activities: Option<Due>,
    /// Undelivered intents.
    intents: Due,
}

impl DueItems {
    /// Returns no due items, for a probe that queries for the queues that `needs_items`.
    pub(super) fn nothing(needs_items: impl Fn(PolledQueue) -> bool) -> Self {
        let nothing = |queue| needs_items(queue).then(|| Due::In(BTreeSet::new()));
        Self {
            orchestrations: nothing(PolledQueue::Orchestrations),
            activities: nothing(PolledQueue::Activities),
            intents: Due::In(BTreeSet::new()),
        }
    }

    /// Returns the same queues with items that may be due anywhere.
    pub(super) fn anywhere(self) -> Self {
        Self {
            orchestrations: self.orchestrations.map(|_| Due::Anywhere),
            activities: self.activities.map(|_| Due::Anywhere),
            intents: Due::Anywhere,
        }
    }

    /// Returns the same queues after a probe for overdue items only.
    pub(super) fn not_searched(self) -> Self {
        let nothing = |_| Due::OverdueIn(BTreeSet::new());
        Self {
            orchestrations: self.orchestrations.map(nothing),
            activities: self.activities.map(nothing),
            intents: nothing(self.intents),
        }
    }

    /// Returns the due items of a queue, or undelivered intents; `None` if the probe did not query
    /// for them.
    pub(super) fn of(&self, queue: Option<PolledQueue>) -> Option<&Due> {
        match queue {
            Some(PolledQueue::Orchestrations) => self.orchestrations.as_ref(),
            Some(PolledQueue::Activities) => self.activities.as_ref(),
            None => Some(&self.intents),
        }
    }

    /// Adds the items of a partition that belong to the share.
    pub(super) fn add(&mut self, found: &Found, share: &Share, range: RangeId) {
        let (slot, due) = match found.item {
            Item::Orchestration(slot) => (slot, self.orchestrations.as_mut()),
            Item::Activity(slot) => (slot, self.activities.as_mut()),
            Item::Intent(slot) => (slot, Some(&mut self.intents)),
            Item::Unknown => return self.add_all(&range),
        };
        if let Some(due) = due
            && (found.is_overdue || share.has(&range, slot))
        {
            due.add(range);
        }
    }

    /// Adds a partition with unknown items.
    pub(super) fn add_all(&mut self, range: &RangeId) {
        let queues = self.orchestrations.iter_mut().chain(&mut self.activities);
        queues.for_each(|due| due.add(range.clone()));
        self.intents.add(range.clone());
    }
}

/// A due item.
pub(super) struct Found {
    pub(super) item: Item,
    pub(super) is_overdue: bool,
}

pub(super) enum Item {
    /// An orchestrator item of a dispatch slot.
    Orchestration(u8),
    /// A worker item of a dispatch slot.
    Activity(u8),
    /// An intent of a sender in a dispatch slot.
    Intent(u8),
    Unknown,
}

impl Found {
    pub(super) const UNKNOWN: Self = Self {
        item: Item::Unknown,
        is_overdue: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_with_overdue_items_is_kept_until_a_poll_of_their_queue_takes_it() {
        let range: RangeId = serde_json::from_str("\"7\"").expect("a range id is a string");
        let nothing = || DueItems::nothing(|_| true);
        let mut state = ProbeState::default();
        let mut found = nothing();
        found.activities = Some(Due::In([range.clone()].into()));
        state.add_overdue(&found);
        state.last = Some((Instant::now(), nothing().not_searched()));
        // Another caller probes before the activities are polled.
        assert!(state.take(None).is_nothing());
        state.last = Some((Instant::now(), nothing()));
        assert!(!state.has_items(PolledQueue::Orchestrations));
        assert!(state.has_items(PolledQueue::Activities));
        let activities = Some(PolledQueue::Activities);
        assert_eq!(state.take(activities), Due::In([range].into()));
        assert!(state.take(activities).is_nothing());
    }
}
