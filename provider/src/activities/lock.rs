//! The lock of an activity: what it changes in the document, and the document as it is now.

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Patch, Stored, Timestamp};

use super::ask::ActivityKey;
use crate::documents::{Durable, WorkerItem, WorkerItemKey};
use crate::error::{Error, Result};

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

/// The item as it is now.
pub(super) async fn read(
    container: &ContainerClient<Durable>,
    key: &ActivityKey,
) -> Result<Option<Stored<WorkerItem>>> {
    let key = WorkerItemKey::new(&*key.instance, key.execution, key.activity);
    container.read(&key).await.map_err(Error::from)
}
