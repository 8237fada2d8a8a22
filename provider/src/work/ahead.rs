//! Activities locked ahead of the worker that will ask for them: as they are created, or as another one ends.
//!
//! A worker of this process that waits for something to do would take the activity with a request of its own. Where the
//! activity is written anyway, its lock costs nothing. One that no worker asks for is given back.

use std::time::Duration;

use cdb_coordination::Lockable;
use cdb_model::{Batch, BatchError, OperationIndex, Patch, Stored, Timestamp};
use tokio::time::Instant;

use super::fetch::{WorkerCandidate, read};
use super::table::WorkLock;
use crate::documents::{Durable, RESERVED, WorkerItem};
use crate::provider::Inner;

/// How long an activity that was locked ahead waits for a worker before its lock is given back.
const UNWANTED_AFTER: Duration = Duration::from_secs(1);

/// The activity as it is while somebody runs it.
pub(super) fn locked(mut item: WorkerItem, now: Timestamp, timeout: Duration) -> WorkerItem {
    item.lock_token = Some(uuid::Uuid::new_v4().to_string());
    item.locked_until = Some(now + timeout);
    item.visible_at = now + timeout;
    item.reserved = false;
    item.attempt_count += 1;
    item
}

/// The activity when its lock is given back; without the attempt, if nobody has run it.
pub(super) fn unlocked(mut item: WorkerItem, visible_at: Timestamp, counts: bool) -> WorkerItem {
    item.lock_token = None;
    item.locked_until = None;
    item.visible_at = visible_at;
    if !counts {
        item.attempt_count = item.attempt_count.saturating_sub(1);
    }
    item
}

/// What changes in an activity when its lock does.
pub(super) fn lock_patch(locked: &WorkerItem) -> Patch<WorkerItem> {
    Patch::<WorkerItem>::new()
        .set(WorkerItem::LOCK_TOKEN, locked.lock_token.clone())
        .set(WorkerItem::LOCKED_UNTIL, locked.locked_until)
        .set(WorkerItem::VISIBLE_AT, locked.visible_at)
        .set(WorkerItem::RESERVED, locked.reserved)
        .set(WorkerItem::ATTEMPT_COUNT, locked.attempt_count)
}

/// Locks activities that are about to be created, as many as workers of this process have the time for.
pub(crate) fn lock_ahead(inner: &Inner, items: &mut [WorkerItem], now: Timestamp) {
    let Some(ask) = inner.work.last_ask() else {
        return;
    };
    if inner.background.is_closing() {
        return;
    }
    let free = items
        .iter_mut()
        .filter(|item| item.lock_token.is_none() && ask.may_lock(item));
    let (ready, waiting) = inner.activities.ready_and_waiting();
    for item in free.take(inner.work.room_ahead(ready, waiting)) {
        *item = locked(item.clone(), now, ask.lock_timeout);
    }
    // The others wait for a worker of this process too, before those of others take them.
    let rest = items.iter_mut();
    for item in rest.filter(|item| item.lock_token.is_none() && ask.may_lock(item)) {
        item.reserved = true;
        item.visible_at = now + RESERVED;
    }
}

/// An activity was created locked, but nobody knows with which version: finds out, and hands it on.
pub(crate) fn lost_sight(inner: &Inner, item: WorkerItem) {
    inner.spawn(|inner| async move {
        match read(&inner, &item).await {
            Ok(Some(stored)) if stored.document.lock_token == item.lock_token => {
                inner.hand_over(stored);
            }
            Ok(_) => inner.activities.quicken(),
            Err(error) => tracing::debug!(%error, "a lock is left to end by itself"),
        }
    });
}

/// The next activity of a worker, locked by the batch that ends the one before.
pub(super) struct Following {
    seen: Stored<WorkerItem>,
    after: WorkerItem,
    operation: Option<OperationIndex>,
}

impl Following {
    /// Another activity of the same partition that waits here, if the worker of this lock may run it.
    pub(super) fn of(inner: &Inner, lock: &WorkLock, now: Timestamp) -> Option<Self> {
        let ask = lock.ask.as_ref()?;
        if inner.background.is_closing() {
            return None;
        }
        let instance_id = &lock.item.document.instance_id;
        let wanted = |candidate: &WorkerCandidate| {
            let item = &candidate.item.document;
            candidate.handed_at.is_none()
                && item.instance_id == *instance_id
                && item.is_lockable(now)
                && ask.may_lock(item)
        };
        let seen = inner.activities.take(wanted)?.item;
        // Held by another worker here that tries it; it will be back if that fails.
        if !inner.work.claim(&seen, now, now + ask.lock_timeout) {
            return None;
        }
        Some(Self {
            after: locked(seen.document.clone(), now, ask.lock_timeout),
            seen,
            operation: None,
        })
    }

    pub(super) fn add_to(&mut self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        let operation = batch.patch_stored(&self.seen, &lock_patch(&self.after))?;
        self.operation = Some(operation);
        Ok(())
    }

    /// Whether it was this lock that made the batch fail: somebody was faster.
    pub(super) fn failed(&self, error: &cdb_client::Error) -> bool {
        let operation = self.operation.map(OperationIndex::get);
        operation.is_some() && error.operation_index() == operation
    }

    /// The batch took place.
    pub(super) fn won(self, inner: &Inner, outcome: &cdb_client::BatchOutcome<Durable>) {
        inner.work.release(&self.seen);
        let etag = self.operation.and_then(|operation| outcome.etag(operation));
        if let Some(etag) = etag {
            let mut item = self.seen;
            item.document = self.after;
            item.etag = etag.clone();
            inner.hand_over(item);
        }
    }

    /// The batch did not take place, or without this lock: the activity is as free as before.
    pub(super) fn give_up(self, inner: &Inner) {
        inner.work.release(&self.seen);
        inner.activities.quicken();
    }

    /// The batch took place, perhaps, but nobody knows what it left.
    pub(super) fn lost_sight(self, inner: &Inner) {
        inner.work.release(&self.seen);
        lost_sight(inner, self.after);
    }
}

/// Gives back the activities that no worker has asked for.
pub(crate) async fn give_back_unwanted(inner: &Inner) {
    let unwanted = |candidate: &WorkerCandidate| {
        let handed_at = candidate.handed_at;
        handed_at.is_some_and(|at: Instant| at.elapsed() > UNWANTED_AFTER)
    };
    while let Some(candidate) = inner.activities.take(unwanted) {
        unlock(inner, candidate.item).await;
    }
}

/// Nobody has run it, so the attempt does not count.
pub(super) async fn unlock(inner: &Inner, mut stored: Stored<WorkerItem>) {
    let free = unlocked(stored.document.clone(), inner.container.now(), false);
    let patch = lock_patch(&free);
    match inner.container.patch_stored(&stored, &patch).await {
        Ok(written) => {
            stored.etag = written.etag;
            stored.document = free;
            inner.hint_free(stored, Duration::ZERO);
        }
        Err(error) => tracing::debug!(%error, "a lock is left to end by itself"),
    }
}
