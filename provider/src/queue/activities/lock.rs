//! The lock of an activity: its fields in the document, and the patch that changes them.

use std::time::Duration;

use cdb_model::{Patch, Stored, Timestamp};

use crate::error::Result;
use crate::stored::Store;
use crate::stored::documents::{PAUSED, WorkerItem};
use crate::timing::LOOK_AGAIN;

/// Returns the activity with a new lock.
pub(crate) fn locked(
    store: &Store,
    mut item: WorkerItem,
    now: Timestamp,
    timeout: Duration,
) -> WorkerItem {
    item.lock_token = Some(store.new_lock_token());
    item.locked_until = Some(now + timeout);
    item.visible_at = now + timeout;
    item.reserved = false;
    item.attempt_count += 1;
    item
}

/// Returns the earliest end of a lock that was taken or renewed lately. The runtime expects its full time,
/// and an older lock may precede a pause.
pub(crate) fn fresh_until(store: &Store, timeout: Duration) -> Timestamp {
    let age = LOOK_AGAIN.min(timeout / 4);
    store.now() + timeout.saturating_sub(age)
}

/// Releases the lock of an activity, which is then free from `visible_at` on. The attempt counts
/// only if `counts`.
pub(crate) async fn unlock_until(
    store: &Store,
    mut stored: Stored<WorkerItem>,
    visible_at: Timestamp,
    counts: bool,
) -> Result<Stored<WorkerItem>, cdb_client::Error> {
    let mut item = stored.document.clone();
    item.lock_token = None;
    item.locked_until = None;
    item.visible_at = visible_at;
    if !counts {
        item.attempt_count = item.attempt_count.saturating_sub(1);
    }
    let patch = lock_patch(&item);
    let written = store.container.run(patch.at(&stored)).await?;
    stored.etag = written.etag;
    stored.document = item;
    Ok(stored)
}

/// Returns the patch that withholds an activity of a paused instance, which is free.
pub(crate) fn withhold_patch(free: &WorkerItem) -> Patch<WorkerItem> {
    let due_at = free.paused.unwrap_or(free.visible_at);
    Patch::<WorkerItem>::new()
        .set(WorkerItem::PAUSED, Some(due_at))
        .set(WorkerItem::VISIBLE_AT, PAUSED)
        .set(WorkerItem::RESERVED, false)
}

/// Returns the patch that changes the lock of an activity.
pub(crate) fn lock_patch(locked: &WorkerItem) -> Patch<WorkerItem> {
    Patch::<WorkerItem>::new()
        .set(WorkerItem::LOCK_TOKEN, locked.lock_token.clone())
        .set(WorkerItem::LOCKED_UNTIL, locked.locked_until)
        .set(WorkerItem::VISIBLE_AT, locked.visible_at)
        .set(WorkerItem::RESERVED, locked.reserved)
        .set(WorkerItem::ATTEMPT_COUNT, locked.attempt_count)
}
