//! Which of the due items a runtime asks for: those of its dispatch slots, and what others have left lying.
//!
//! Slots spread load, and nothing may depend on them. Who serves a slot may be busy, or gone and not yet missed, or unable
//! to work on an item: an instance of another version, an activity with a tag that only others run. So whatever has been
//! due for a while is anybody's.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cdb_coordination::{LeaseProvider, SlotSet};
use cdb_model::{Document, Filter, Indexed, Patchable, Path, Timestamp};
use tokio::time::Instant;

/// How long an item is due before others than the runtime of its slot take it.
const LEFT_LYING: Duration = Duration::from_secs(5);

/// How often a poll asks for such items too. Not always: while there is more to do than can be done, the oldest items are
/// left lying in every slot, and all runtimes would ask for the same.
const ROUND: Duration = Duration::from_secs(2);

/// A queue that is polled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queue {
    Orchestrations,
    Activities,
}

/// This runtime's share of the load.
pub(crate) struct Share {
    leases: Arc<dyn LeaseProvider>,
    /// When each queue was last asked for what was left lying.
    rounds: [Mutex<Option<Instant>>; 2],
}

impl Share {
    pub(crate) fn new(leases: Arc<dyn LeaseProvider>) -> Self {
        Self {
            leases,
            rounds: Default::default(),
        }
    }

    /// What the next poll of a queue asks for.
    pub(crate) async fn of_poll(&self, queue: Queue) -> Reach {
        let slots = self.leases.slots().await;
        let mut last = match queue {
            Queue::Orchestrations => &self.rounds[0],
            Queue::Activities => &self.rounds[1],
        }
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
        let left_lying = last.is_none_or(|at| at.elapsed() >= ROUND);
        if left_lying {
            *last = Some(Instant::now());
        }
        Reach { slots, left_lying }
    }

    /// All that any poll asks for.
    pub(crate) async fn at_most(&self) -> Reach {
        Reach {
            slots: self.leases.slots().await,
            left_lying: true,
        }
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share")
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}

/// What a poll asks for.
#[derive(Debug)]
pub(crate) struct Reach {
    slots: SlotSet,
    left_lying: bool,
}

impl Reach {
    /// Whether there is nothing to ask for: this runtime serves no slots any more.
    pub(crate) fn is_nothing(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether an item falls to this runtime, whoever may take it.
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
        if self.left_lying {
            own | visible_at.between(from, now - LEFT_LYING)
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
    async fn what_others_leave_lying_is_asked_for_now_and_then() {
        let share = Share::new(Arc::new(InMemoryLeaseProvider::share(0, 2)));
        assert!(share.of_poll(Queue::Orchestrations).await.left_lying);
        assert!(share.of_poll(Queue::Activities).await.left_lying);
        assert!(!share.of_poll(Queue::Orchestrations).await.left_lying);
        tokio::time::advance(ROUND).await;
        assert!(share.of_poll(Queue::Orchestrations).await.left_lying);
        assert!(share.at_most().await.left_lying);
    }

    #[tokio::test]
    async fn who_serves_every_slot_asks_for_everything_and_who_serves_none_for_nothing() {
        let all = Share::new(Arc::new(InMemoryLeaseProvider::all()));
        let reach = all.of_poll(Queue::Activities).await;
        assert!(reach.is_own(0) && reach.is_own(255) && !reach.is_nothing());
        let reach = Reach {
            slots: SlotSet::NONE,
            left_lying: true,
        };
        assert!(reach.is_nothing());
    }
}
