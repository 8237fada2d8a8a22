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
    /// Items may be due in any partition.
    Anywhere,
}

impl Due {
    /// Returns the partitions of the share to poll.
    pub(crate) fn ranges(&self, share: &Share) -> Vec<RangeId> {
        match self {
            Self::In(ranges) => share.existing(ranges),
            Self::Anywhere => share.own_ranges(),
        }
    }

    /// Adds a partition.
    fn add(&mut self, range: RangeId) {
        if let Self::In(ranges) = self {
            ranges.insert(range);
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::In(ranges) if ranges.is_empty())
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
    pub(super) orchestrations: Due,
    pub(super) activities: Due,
    /// Whether an undelivered intent may be due.
    pub(crate) intents: bool,
}

impl DueItems {
    pub(super) fn nothing() -> Self {
        Self {
            orchestrations: Due::In(BTreeSet::new()),
            activities: Due::In(BTreeSet::new()),
            intents: false,
        }
    }

    pub(super) fn anywhere() -> Self {
        Self {
            orchestrations: Due::Anywhere,
            activities: Due::Anywhere,
            intents: true,
        }
    }

    pub(super) fn of(&self, queue: PolledQueue) -> &Due {
        match queue {
            PolledQueue::Orchestrations => &self.orchestrations,
            PolledQueue::Activities => &self.activities,
        }
    }

    /// Adds the items of a partition that belong to the share.
    pub(super) fn add(&mut self, found: &Found, share: &Share, range: RangeId) {
        let is_mine = |slot| found.is_overdue || share.has(&range, slot);
        match &found.item {
            Item::Orchestration(slot) if is_mine(*slot) => self.orchestrations.add(range),
            Item::Activity(slot) if is_mine(*slot) => self.activities.add(range),
            Item::Orchestration(_) | Item::Activity(_) => {}
            Item::Intent => self.intents = true,
            Item::Unknown => self.add_all(range),
        }
    }

    /// Adds a partition with unknown items.
    pub(super) fn add_all(&mut self, range: RangeId) {
        self.orchestrations.add(range.clone());
        self.activities.add(range);
        self.intents = true;
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
    Intent,
    Unknown,
}

impl Found {
    pub(super) const UNKNOWN: Self = Self {
        item: Item::Unknown,
        is_overdue: false,
    };
}
