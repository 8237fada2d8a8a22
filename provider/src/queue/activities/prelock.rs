//! Prelocks of activities: locks taken by the batch that creates the activity or ends the previous
//! one.
//!
//! A waiting worker would lock the activity with a request of its own. As part of a batch that
//! writes the activity anyway, the lock costs no request. A prelock that no worker uses is
//! released.

use std::collections::BTreeSet;
use std::time::Duration;

use cdb_client::write::BatchOutcome;
use cdb_coordination::lease::Lockable;
use cdb_model::operation::{BatchError, OperationIndex};
use cdb_model::{Batch, Document, Stored, Timestamp};
use parking_lot::Mutex;

use super::capability::{ActivityKey, WorkerCapability};
use super::known::{Activities, KnownActivity};
use super::lock::{lock_patch, locked};
use super::running::WorkLock;
use crate::queue::local_queue::{FetchRequest, Guard, Reservation};
use crate::queue::release::Locked as _;
use crate::queue::{Services, is_yielding};
use crate::stored::documents::{Durable, WorkerItem};
use crate::timing::ACTIVITY_RESERVED;

/// The free capacity of this process's workers.
#[derive(Debug)]
pub(crate) struct FreeWorkers {
    services: Services,
    request: FetchRequest<WorkerCapability>,
    /// The number of activities that they can take.
    capacity: usize,
    /// The activities that limits count as running until the batch has ended.
    reserved: Mutex<BTreeSet<ActivityKey>>,
}

impl FreeWorkers {
    /// Counts the workers that are free, and `freed` ones that the batch frees. Activities that are ready take
    /// them first.
    pub(crate) fn of(services: &Services, freed: usize) -> Option<Self> {
        Some(Self {
            services: services.clone(),
            request: services.activities().last_request()?,
            capacity: services.activities().prelock_capacity(freed),
            reserved: Mutex::default(),
        })
    }

    /// Locks activities that are about to be created, and reserves the others for this process. Those that
    /// yield to the work of other partitions are not locked: they would go before it.
    pub(crate) fn lock(&self, items: &mut [WorkerItem], now: Timestamp) {
        let yields = |item: &WorkerItem| is_yielding(&self.services, &item.instance_id);
        let capacity = if items.first().is_some_and(yields) {
            0
        } else {
            self.capacity
        };
        let suitable = items
            .iter_mut()
            .filter(|item| self.request.capability.takes_without_session(item));
        for (number, item) in suitable.enumerate() {
            if number < capacity && self.may_start(item) {
                let (store, activities) = (&self.services.store, self.services.activities());
                let time = activities.lock_time(&item.key(), self.request.lock_timeout);
                *item = locked(store, item.clone(), now, time);
            } else {
                item.reserved = true;
                item.visible_at = now + ACTIVITY_RESERVED;
            }
        }
    }
}

impl FreeWorkers {
    /// Returns whether limits let an activity start that is about to be created.
    fn may_start(&self, item: &WorkerItem) -> bool {
        let key = item.key();
        let mut reserved = self.reserved.lock();
        let queue = self.services.activities().local();
        queue.with(|queue, now| {
            if !queue.has_rules() || reserved.contains(&key) {
                return true;
            }
            queue.label(&key, || item.all_labels());
            match queue.reserve(&key, &self.request.capability, now) {
                Reservation::Made => reserved.insert(key),
                Reservation::Refused => false,
            }
        })
    }
}

impl Drop for FreeWorkers {
    fn drop(&mut self) {
        let reserved = std::mem::take(self.reserved.get_mut());
        let queue = self.services.activities().local();
        for key in reserved {
            queue.with(|queue, now| queue.unreserve(&key, now));
        }
    }
}

/// Extends prelocks whose batch is sent late.
pub(crate) fn extend_prelocks(items: &mut [WorkerItem], delay: Duration) {
    for item in items {
        if let Some(until) = &mut item.locked_until {
            *until = *until + delay;
            item.visible_at = *until;
        }
    }
}

/// Notes an activity that this process has created. Releases a prelock that no worker will use.
pub(crate) fn created(services: &Services, item: Stored<WorkerItem>) {
    let Some(unused) = services.activities().note_created(item) else {
        return;
    };
    services.spawn(|services| async move {
        let released = Activities::release_prelock(&services, unused).await;
        Activities::note_released(&services, released);
    });
}

/// Reads an activity that was created locked but whose version is unknown, and hands it on.
pub(crate) fn outcome_unknown(services: &Services, item: WorkerItem) {
    let key = item.key();
    // Until the outcome is known, it counts as running.
    let queue = services.activities().local();
    let reserved = queue.with(|queue, _| queue.reserve_again(&key));
    services.spawn(move |services| async move {
        let latest = services.container().latest_committed();
        match latest.read(&item.key()).await {
            Ok(Some(stored)) if stored.document.lock_token == item.lock_token => {
                created(&services, stored);
            }
            Ok(_) => services.activities().local().poll_soon(),
            Err(error) => tracing::debug!(%error, "a lock was not released; it will expire"),
        }
        if reserved == Reservation::Made {
            let queue = services.activities().local();
            queue.with(|queue, now| queue.unreserve(&key, now));
        }
    });
}

/// The next activity of a worker, prelocked by the batch that ends the previous one.
pub(crate) struct NextActivity<'a> {
    services: &'a Services,
    guard: Guard<'a, Activities>,
    seen: Stored<WorkerItem>,
    after: WorkerItem,
    operation: Option<OperationIndex>,
}

impl<'a> NextActivity<'a> {
    /// Claims another ready activity of the same partition that the worker of this lock may run.
    /// Returns `None` if there is none, or if the activities of the partition yield to others.
    pub(crate) fn of(services: &'a Services, lock: &WorkLock, now: Timestamp) -> Option<Self> {
        let request = Some(&lock.request).filter(|request| request.caller.is_runtime())?;
        services.activities().last_request()?;
        let instance_id = &lock.item.document.instance_id;
        if is_yielding(services, instance_id) {
            return None;
        }
        let wanted = |item: &WorkerItem| {
            item.instance_id == *instance_id
                && item.is_lockable(now)
                && request.capability.takes_without_session(item)
        };
        let is_wanted = |known: &KnownActivity| known.item().is_some_and(wanted);
        let queue = services.activities().local();
        let capability = &request.capability;
        let (guard, seen) =
            queue.claim(|queue, now| queue.claim_ready(capability, now, is_wanted))?;
        let seen = seen?;
        let store = &services.store;
        let time = services
            .activities()
            .lock_time(&guard.claim.key, request.lock_timeout);
        let after = locked(store, seen.document.clone(), now, time);
        guard.locking(after.lock_token.as_deref().unwrap_or_default(), time);
        Some(Self {
            services,
            guard,
            seen,
            after,
            operation: None,
        })
    }

    pub(crate) fn add_to(&mut self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        let operation = batch.add(lock_patch(&self.after).at(&self.seen))?;
        self.operation = Some(operation);
        Ok(())
    }

    /// Returns whether this prelock made the batch fail, because another worker was faster.
    pub(crate) fn failed(&self, error: &cdb_client::Error) -> bool {
        let operation = self.operation.map(OperationIndex::get);
        operation.is_some() && error.operation_index() == operation
    }

    /// Hands on the prelock of a committed batch. If the answer was lost, reads the activity in the
    /// background.
    pub(crate) fn committed(self, outcome: Option<&BatchOutcome<Durable>>) {
        let operation = self.operation.zip(outcome);
        if let Some(etag) = operation.and_then(|(operation, outcome)| outcome.etag(operation)) {
            let won = self.services.activities().won(Stored {
                document: self.after,
                etag: etag.clone(),
                ..self.seen
            });
            self.guard.prelocked(won, KnownActivity::forget);
        } else {
            self.guard.release(KnownActivity::forget);
            outcome_unknown(self.services, self.after);
        }
    }

    /// Releases the claim after a failed batch, or a batch without this prelock.
    pub(crate) fn release(self) {
        self.guard.release(KnownActivity::forget);
        self.services.activities().local().poll_soon();
    }
}
