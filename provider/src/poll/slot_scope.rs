//! Which due items a runtime asks for: those of its dispatch slots, and overdue items of all slots.
//!
//! Slots spread load, and nothing may depend on them. The runtime of a slot may be busy, or gone and not yet detected, or
//! unable to work on an item: an instance of another version, an activity with a tag that only other runtimes run. So every
//! runtime takes items that are overdue.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cdb_coordination::{LeaseProvider, SlotSet};
use cdb_model::{Document, Filter, Indexed, Patchable, Path, Timestamp};
use tokio::time::Instant;

/// How long an item is due before runtimes of other slots take it.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);

/// How often a poll asks for overdue items too. Not always: under overload the oldest items of every slot are overdue, and
/// all runtimes would ask for the same ones.
const OVERDUE_INTERVAL: Duration = Duration::from_secs(2);

/// A queue that is polled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PolledQueue {
    Orchestrations,
    Activities,
}

/// The slots of this runtime.
pub(crate) struct SlotScope {
    leases: Arc<dyn LeaseProvider>,
    /// When each queue was last asked for overdue items.
    last_overdue: [Mutex<Option<Instant>>; 2],
}

impl SlotScope {
    pub(crate) fn new(leases: Arc<dyn LeaseProvider>) -> Self {
        Self {
            leases,
            last_overdue: Default::default(),
        }
    }

    /// What the next poll of a queue asks for.
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

    /// Everything that any poll of this runtime asks for.
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

/// What a poll asks for.
#[derive(Debug)]
pub(crate) struct PollScope {
    slots: SlotSet,
    overdue: bool,
}

impl PollScope {
    /// Whether there is nothing to ask for: this runtime serves no slots.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether an item is in a slot of this runtime.
    pub(crate) fn is_own(&self, slot: u8) -> bool {
        self.slots.contains(slot)
    }

    /// The items to ask for that are due between two times.
    pub(crate) fn due<D: Document>(
        &self,
        visible_at: Path<D, Timestamp, Indexed, Patchable>,
        slot: Path<D, u8, Indexed, Patchable>,
        (from, now): (Timestamp, Timestamp),
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
    async fn overdue_items_are_asked_for_at_intervals() {
        let scope = SlotScope::new(Arc::new(InMemoryLeaseProvider::share(0, 2)));
        assert!(scope.of_poll(PolledQueue::Orchestrations).await.overdue);
        assert!(scope.of_poll(PolledQueue::Activities).await.overdue);
        assert!(!scope.of_poll(PolledQueue::Orchestrations).await.overdue);
        tokio::time::advance(OVERDUE_INTERVAL).await;
        assert!(scope.of_poll(PolledQueue::Orchestrations).await.overdue);
        assert!(scope.widest().await.overdue);
    }

    #[tokio::test]
    async fn a_runtime_of_all_slots_asks_for_everything_and_one_without_slots_for_nothing() {
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
