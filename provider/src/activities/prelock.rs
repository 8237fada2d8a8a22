//! Activities that are locked by the batch that writes them: as they are created, or as another one ends.
//!
//! A worker of this process that waits for something to do would take the activity with a request of its own. Where the
//! activity is written anyway, its lock costs nothing. One that no worker asks for is given back.

use std::time::Duration;

use cdb_client::BatchOutcome;
use cdb_coordination::Lockable;
use cdb_model::{Batch, BatchError, OperationIndex, Stored, Timestamp};

use super::ask::{ActivityKey, WorkerAsk};
use super::known::{Activities, KnownActivity};
use super::lock::{lock_patch, locked, read};
use super::running::WorkLock;
use crate::documents::{Durable, RESERVED, WorkerItem};
use crate::local_queue::{Ask, Guard};
use crate::services::Services;

/// The workers of this process that have time for new activities.
#[derive(Debug)]
pub(crate) struct FreeWorkers {
    ask: Ask<WorkerAsk>,
    /// How many activities they have the time for.
    room: usize,
}

impl FreeWorkers {
    pub(crate) fn of(services: &Services) -> Option<Self> {
        Some(Self {
            ask: services.activities().last_ask()?,
            room: services.activities().room_ahead(),
        })
    }

    /// Locks activities that are about to be created, and reserves the others for this process.
    pub(crate) fn lock(&self, items: &mut [WorkerItem], now: Timestamp) {
        let suitable = items
            .iter_mut()
            .filter(|item| self.ask.who.takes_at_once(item));
        for (number, item) in suitable.enumerate() {
            if number < self.room {
                *item = locked(item.clone(), now, self.ask.lock_timeout);
            } else {
                item.reserved = true;
                item.visible_at = now + RESERVED;
            }
        }
    }
}

/// Moves the ends of locks that were taken for a batch which goes out later.
pub(crate) fn prolong(items: &mut [WorkerItem], late: Duration) {
    for item in items {
        if let Some(until) = &mut item.locked_until {
            *until = *until + late;
            item.visible_at = *until;
        }
    }
}

/// An activity was created locked, but nobody knows with which version: finds out, and hands it on.
pub(crate) fn outcome_unknown(services: &Services, item: WorkerItem) {
    services.spawn(|services| async move {
        match read(services.container(), &ActivityKey::of(&item)).await {
            Ok(Some(stored)) if stored.document.lock_token == item.lock_token => {
                services.activities().hand_over(stored);
            }
            Ok(_) => services.activities().local().poll_soon(),
            Err(error) => tracing::debug!(%error, "a lock is left to end by itself"),
        }
    });
}

/// The next activity of a worker, locked by the batch that ends the one before.
pub(super) struct NextActivity<'a> {
    services: &'a Services,
    guard: Guard<'a, Activities>,
    seen: Stored<WorkerItem>,
    after: WorkerItem,
    operation: Option<OperationIndex>,
}

impl<'a> NextActivity<'a> {
    /// Another activity of the same partition that is ready here, if the worker of this lock may run it.
    pub(super) fn of(services: &'a Services, lock: &WorkLock, now: Timestamp) -> Option<Self> {
        let ask = lock.ask.as_ref()?;
        services.activities().last_ask()?;
        let instance_id = &lock.item.document.instance_id;
        let wanted = |item: &WorkerItem| {
            item.instance_id == *instance_id && item.is_lockable(now) && ask.who.takes_at_once(item)
        };
        let (guard, seen) = services
            .activities()
            .claim_ready(ask.lock_timeout, wanted)?;
        let after = locked(seen.document.clone(), now, ask.lock_timeout);
        guard.locking(
            after.lock_token.as_deref().unwrap_or_default(),
            ask.lock_timeout,
        );
        Some(Self {
            services,
            guard,
            seen,
            after,
            operation: None,
        })
    }

    pub(super) fn add_to(&mut self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        let operation = batch.patch_stored(&self.seen, &lock_patch(&self.after))?;
        self.operation = Some(operation);
        Ok(())
    }

    /// Whether this lock made the batch fail: another worker was faster.
    pub(super) fn failed(&self, error: &cdb_client::Error) -> bool {
        let operation = self.operation.map(OperationIndex::get);
        operation.is_some() && error.operation_index() == operation
    }

    /// The batch took place. Without its answer, the activity is read in the background.
    pub(super) fn committed(self, outcome: Option<&BatchOutcome<Durable>>) {
        let operation = self.operation.zip(outcome);
        if let Some(etag) = operation.and_then(|(operation, outcome)| outcome.etag(operation)) {
            let won = self.services.activities().won(Stored {
                document: self.after,
                etag: etag.clone(),
                ..self.seen
            });
            self.guard.prelocked(won, KnownActivity::forget);
        } else {
            self.guard.give_back(KnownActivity::forget);
            outcome_unknown(self.services, self.after);
        }
    }

    /// The batch did not take place, or without this lock: the activity is as free as before.
    pub(super) fn give_up(self) {
        self.guard.give_back(KnownActivity::forget);
        self.services.activities().local().poll_soon();
    }
}
