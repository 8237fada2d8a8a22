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

    fn overdue(self) -> Self {
        match self {
            Self::In(ranges) => Self::OverdueIn(ranges),
            due => due,
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::In(ranges) | Self::OverdueIn(ranges) if ranges.is_empty())
    }
}

/// The last probe. Concurrent callers share one.
#[derive(Debug, Default)]
pub(crate) struct LastProbe(pub(super) Mutex<ProbeState>);

#[derive(Debug, Default)]
pub(crate) struct ProbeState {
    /// The time of the last probe, and its answer.
    pub(super) last: Option<(Instant, DueItems)>,
    /// The time from which on the gateway may probe again after a failure.
    pub(super) gateway_retry_at: Option<Instant>,
    /// The time of the last probe for overdue items of other runtimes' partitions.
    pub(super) overdue_at: Option<Instant>,
}

/// The due items that a probe has found.
#[derive(Clone, Debug)]
pub(crate) struct DueItems {
    /// `None` if the probe did not query for the queue.
    orchestrations: Option<Due>,
    activities: Option<Due>,
    /// Undelivered intents.
    pub(crate) intents: Due,
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

    /// Returns the same items, found by a probe for overdue items.
    pub(super) fn overdue(self) -> Self {
        Self {
            orchestrations: self.orchestrations.map(Due::overdue),
            activities: self.activities.map(Due::overdue),
            intents: self.intents,
        }
    }

    /// Returns the due items of a queue; `None` if the probe did not query for it.
    pub(super) fn of(&self, queue: PolledQueue) -> Option<&Due> {
        match queue {
            PolledQueue::Orchestrations => self.orchestrations.as_ref(),
            PolledQueue::Activities => self.activities.as_ref(),
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
