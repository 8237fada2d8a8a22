//! The completions of a turn that are not stored. The batch of the commit ends their activities, and
//! prelocks the next ones for their workers.

use std::collections::BTreeMap;

use cdb_client::BatchOutcome;
use cdb_model::{Batch, ItemId, Stored};

use crate::queue::Services;
use crate::queue::activities::NextActivity;
use crate::queue::hand_over::{Taken, Unstored};
use crate::queue::instances::Turn;
use crate::stored::documents::{Durable, WorkerItem};

/// The activities that a commit ends, by the ids of their completions.
pub(super) type EndedActivities = BTreeMap<ItemId, Stored<WorkerItem>>;

/// The unstored completions that a commit consumes. Nothing else ends or renews their activities
/// meanwhile.
#[derive(Default)]
pub(super) struct HandedOver<'a> {
    unstored: Vec<(ItemId, Unstored)>,
    next: Vec<NextActivity<'a>>,
}

impl<'a> HandedOver<'a> {
    /// Takes the completions of a turn. Those that were stored meanwhile are consumed as any message.
    pub(super) async fn take(services: &'a Services, turn: &mut Turn) -> Self {
        let mut unstored = Vec::new();
        for message in &mut turn.messages {
            let Some(ticket) = message.ticket.clone() else {
                continue;
            };
            match ticket.take().await {
                Taken::Stored(etag) => message.was_stored(etag),
                Taken::Unstored(taken) => unstored.push((message.id().clone(), taken)),
            }
        }
        let now = services.store.now();
        let locks = unstored.iter().map(|(_, taken)| &*taken.activity);
        let next = locks
            .filter_map(|lock| NextActivity::of(services, lock, now))
            .collect();
        Self { unstored, next }
    }

    /// Returns the activities that the commit ends.
    pub(super) fn ended(&self) -> EndedActivities {
        let unstored = self.unstored.iter();
        let ended = unstored.map(|(id, taken)| (id.clone(), taken.activity.item.clone()));
        ended.collect()
    }

    /// Returns the number of workers that the commit frees, and for which it has no activity.
    pub(super) fn free_workers(&self) -> usize {
        self.unstored.len() - self.next.len()
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
            services.activities().finish(&mut taken.consumed());
        }
    }

    /// Releases the prelocks of a commit that was not applied.
    pub(super) fn release(self) {
        for next in self.next {
            next.release();
        }
    }
}
