//! The messages of a turn that are not stored. The batch of the commit ends the activities that they
//! complete, and prelocks the next ones for their workers.

use std::collections::BTreeMap;

use cdb_client::BatchOutcome;
use cdb_model::{Batch, ItemId, Stored};
use tokio::time::timeout;

use crate::queue::Services;
use crate::queue::activities::NextActivity;
use crate::queue::hand_over::{Taken, Unstored};
use crate::queue::instances::Turn;
use crate::stored::documents::{Durable, WorkerItem};
use crate::timing::HAND_OVER_GATE;

/// The messages of a commit that are not stored, by id, with the activities that it ends instead.
pub(super) type UnstoredMessages = BTreeMap<ItemId, Option<Stored<WorkerItem>>>;

/// The unstored messages that a commit consumes. Until it has ended, nothing else ends or renews their
/// activities.
#[derive(Default)]
pub(super) struct HandedOver<'a> {
    unstored: Vec<(ItemId, Unstored)>,
    next: Vec<NextActivity<'a>>,
}

impl<'a> HandedOver<'a> {
    /// Takes the unstored messages of a turn. One that its caller has stored by now is consumed as any other.
    /// Returns `None` if one is being stored for long, or its activity renewed.
    pub(super) async fn take(services: &'a Services, turn: &mut Turn) -> Option<Self> {
        let mut unstored = Vec::new();
        for message in &mut turn.messages {
            let Some(ticket) = message.ticket.clone() else {
                continue;
            };
            match timeout(HAND_OVER_GATE, ticket.take()).await.ok()? {
                Taken::Stored(etag) => message.was_stored(etag),
                Taken::Unstored(taken) => unstored.push((message.id().clone(), taken)),
            }
        }
        let now = services.store.now();
        let locks = unstored
            .iter()
            .filter_map(|(_, taken)| taken.activity.as_deref());
        let next = locks
            .filter_map(|lock| NextActivity::of(services, lock, now))
            .collect();
        Some(Self { unstored, next })
    }

    /// Returns the messages, with the activities that the commit ends.
    pub(super) fn messages(&self) -> UnstoredMessages {
        let ended = |taken: &Unstored| taken.activity.as_ref().map(|lock| lock.item.clone());
        let unstored = self.unstored.iter();
        unstored
            .map(|(id, taken)| (id.clone(), ended(taken)))
            .collect()
    }

    /// Returns the number of workers that the commit frees, and for which it has no activity.
    pub(super) fn free_workers(&self) -> usize {
        let unstored = self.unstored.iter();
        let ended = unstored.filter(|(_, taken)| taken.activity.is_some());
        ended.count() - self.next.len()
    }

    /// Adds the prelocks to a batch, as far as it has room.
    pub(super) fn add_to(&mut self, batch: &mut Batch<Durable>) {
        let next = std::mem::take(&mut self.next).into_iter();
        for mut next in next {
            match next.add_to(batch) {
                Ok(()) => self.next.push(next),
                Err(_) => next.release(),
            }
        }
    }

    /// Drops the prelock that made a batch fail, and returns it. The batch is then sent without it.
    pub(super) fn take_failed(&mut self, error: &cdb_client::Error) -> Option<NextActivity<'a>> {
        let failed = self.next.iter().position(|next| next.failed(error))?;
        Some(self.next.remove(failed))
    }

    /// Notes a committed turn. `outcome` is `None` when the answer was lost.
    pub(super) fn committed(self, services: &Services, outcome: Option<&BatchOutcome<Durable>>) {
        for next in self.next {
            next.committed(outcome);
        }
        for (_, taken) in self.unstored {
            if let Some(mut activity) = taken.consumed() {
                services.activities().finish(&mut activity);
            }
        }
    }

    /// Releases the prelocks of a commit that was not applied.
    pub(super) fn release(self) {
        for next in self.next {
            next.release();
        }
    }
}
