//! The messages of a turn that are not stored. The batch of the commit ends the activities that they
//! complete, and prelocks the next ones for their workers.

use std::collections::BTreeMap;

use cdb_client::write::BatchOutcome;
use cdb_model::value::ItemId;
use cdb_model::{Batch, Stored};
use tokio::time::{sleep, timeout};

use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::activities::NextActivity;
use crate::queue::hand_over::{Taken, Ticket, Unstored};
use crate::queue::instances::Turn;
use crate::stored::documents::{Durable, WorkerItem};
use crate::timing::{COMMIT_TIME, HAND_OVER, HAND_OVER_GATE};
use crate::turn::renew;

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
    /// Takes the unstored messages of a turn. One that its caller has stored by now is consumed as any other. If
    /// one is being stored for long, or its activity renewed, the commit goes on without its dispatcher.
    ///
    /// # Errors
    /// [`Error::LockLost`] if that takes longer than a commit may, or another runtime took the turn.
    pub(super) async fn take(services: &'a Services, turn: &mut Turn) -> Result<Self> {
        let tickets = turn.messages.iter();
        let tickets = tickets.filter_map(|it| Some((it.id().clone(), it.ticket.clone()?)));
        let (ids, tickets): (Vec<ItemId>, Vec<Ticket>) = tickets.unzip();
        let waits = turn.waits.clone();
        let patience = async move {
            sleep(HAND_OVER_GATE).await;
            waits.cancel();
            sleep(COMMIT_TIME).await;
        };
        let taking = async {
            tokio::select! {
                taken = take_all(&tickets) => Ok(taken),
                () = patience => Err(Error::LockLost("a message of the turn is not stored in time")),
            }
        };
        let taken = renew::while_doing(services, turn, taking).await?;
        let mut unstored = Vec::new();
        // By id: a renewal may have noted that some are stored.
        for (id, taken) in ids.into_iter().zip(taken) {
            match taken {
                Taken::Unstored(taken) => unstored.push((id, taken)),
                Taken::Stored(etag) => {
                    let mut messages = turn.messages.iter_mut();
                    if let Some(message) = messages.find(|message| *message.id() == id) {
                        message.was_stored(etag);
                    }
                }
            }
        }
        let now = services.store.now();
        let locks = unstored
            .iter()
            .filter_map(|(_, taken)| taken.activity.as_deref());
        let next = locks
            .filter_map(|lock| NextActivity::of(services, lock, now))
            .collect();
        Ok(Self { unstored, next })
    }

    /// Returns the messages, with the activities that the commit ends.
    pub(super) fn messages(&self) -> UnstoredMessages {
        let ended = |taken: &Unstored| taken.activity.as_ref().map(|lock| lock.item.clone());
        let unstored = self.unstored.iter();
        unstored
            .map(|(id, taken)| (id.clone(), ended(taken)))
            .collect()
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

/// Returns the number of workers that the commit of a turn may free.
pub(super) fn freed_workers(turn: &Turn) -> usize {
    let tickets = turn.messages.iter().filter_map(|it| it.ticket.as_ref());
    tickets.filter(|ticket| ticket.is_of_activity()).count()
}

/// Takes all messages at once. While it waits for one, the callers of the others may store them.
async fn take_all(tickets: &[Ticket]) -> Vec<Taken> {
    loop {
        let all = async {
            let mut taken = Vec::new();
            for ticket in tickets {
                taken.push(ticket.take().await);
            }
            taken
        };
        if let Ok(taken) = timeout(HAND_OVER, all).await {
            return taken;
        }
        for ticket in tickets {
            drop(ticket.take().await);
        }
    }
}
