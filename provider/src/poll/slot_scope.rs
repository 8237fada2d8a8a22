//! The slot scope of a poll: the due items of this runtime's dispatch slots, and overdue items of
//! all slots.
//!
//! Slots spread load, and correctness does not depend on them. The runtime of a slot may be busy,
//! may have failed undetected, or may be unable to run an item: an instance of another version, an
//! activity with another tag. So every runtime takes overdue items.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cdb_coordination::{LeaseProvider, SlotSet};
use cdb_model::{Document, Filter, Indexed, Patchable, Path, Timestamp};
use tokio::time::Instant;

/// The time after which an item is overdue, so that runtimes of other slots take it.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);

/// The time between two polls that include overdue items. Under overload the oldest items of every
/// slot are overdue, and all runtimes would query for the same items.
const OVERDUE_INTERVAL: Duration = Duration::from_secs(2);

/// A polled queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PolledQueue {
    Orchestrations,
    Activities,
}

/// The slots of this runtime.
pub(crate) struct SlotScope {
    leases: Arc<dyn LeaseProvider>,
    /// The time of each queue's last poll that included overdue items.
    last_overdue: [Mutex<Option<Instant>>; 2],
}

impl SlotScope {
    pub(crate) fn new(leases: Arc<dyn LeaseProvider>) -> Self {
        Self {
            leases,
            last_overdue: Default::default(),
        }
    }

    /// Returns the scope of the next poll of a queue.
    pub(crate) async fn of_poll(&self, queue: PolledQueue) -> PollScope {
        let slots = self.leases.slots().await;
        let mut last = match queue {
            PolledQueue::Orchestrations => &self.last_overdue[0],
            PolledQueue::Activities => &self.last_overdue[1],
        }
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
        let overdue = last.is_none_or(|at| at.elapsed() >= OVERDUE_INTERVAL);
        if overdue {
            *last = Some(Instant::now());
        }
        PollScope { slots, overdue }
    }

    /// Returns the scope of all polls of this runtime.
    pub(crate) async fn widest(&self) -> PollScope {
        PollScope {
            slots: self.leases.slots().await,
            overdue: true,
        }
    }
}

impl fmt::Debug for SlotScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotScope")
            .field("last_overdue", &self.last_overdue)
            .finish_non_exhaustive()
    }
}

/// The scope of a poll.
#[derive(Debug)]
pub(crate) struct PollScope {
    slots: SlotSet,
    overdue: bool,
}

impl PollScope {
    /// Returns whether this runtime serves no slots.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns whether an item is in a slot of this runtime.
    pub(crate) fn is_own(&self, slot: u8) -> bool {
        self.slots.contains(slot)
    }

    /// Returns the filter for items in scope that are due between two times.
    pub(crate) fn due<D: Document>(
        &self,
        visible_at: Path<D, Timestamp, Indexed, Patchable>,
        slot: Path<D, u8, Indexed, Patchable>,
        from: Timestamp,
        now: Timestamp,
    ) -> Filter<D> {
        if self.slots.is_all() {
            return visible_at.between(from, now);
        }
        let own = visible_at.between(from, now) & slot.is_in(self.slots.iter());
        if self.overdue {
            own | visible_at.between(from, now - OVERDUE_AFTER)
        } else {
            own
        }
    }
}

#[cfg(test)]
mod tests {
    use cdb_coordination::InMemoryLeaseProvider;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn polls_include_overdue_items_at_intervals() {
        let scope = SlotScope::new(Arc::new(InMemoryLeaseProvider::share(0, 2)));
        assert!(scope.of_poll(PolledQueue::Orchestrations).await.overdue);
        assert!(scope.of_poll(PolledQueue::Activities).await.overdue);
        assert!(!scope.of_poll(PolledQueue::Orchestrations).await.overdue);
        tokio::time::advance(OVERDUE_INTERVAL).await;
        assert!(scope.of_poll(PolledQueue::Orchestrations).await.overdue);
        assert!(scope.widest().await.overdue);
    }

    #[tokio::test]
    async fn the_scope_follows_the_slots_of_the_runtime() {
        let all = SlotScope::new(Arc::new(InMemoryLeaseProvider::all()));
        let scope = all.of_poll(PolledQueue::Activities).await;
        assert!(scope.is_own(0) && scope.is_own(255) && !scope.is_empty());
        let scope = PollScope {
            slots: SlotSet::NONE,
            overdue: true,
        };
        assert!(scope.is_empty());
    }
}
