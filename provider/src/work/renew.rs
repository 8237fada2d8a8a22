//! Extending the lock of an activity that takes longer.

use std::time::Duration;

use cdb_coordination::{Kept, keep};
use cdb_model::{Patch, Stored};

use super::LOST;
use crate::documents::WorkerItem;
use crate::error::{Error, Result};
use crate::provider::Inner;

/// Implements `Provider::renew_work_item_lock`. A lock that cannot be renewed tells the worker that its activity was
/// cancelled.
pub(crate) async fn renew(inner: &Inner, token: &str, extend_for: Duration) -> Result<()> {
    let shared = inner.work.get(token)?;
    let mut lock = shared.lock().await;
    let now = inner.container.now();
    if !lock.holds(now) {
        inner.work.remove(&mut lock);
        return Err(Error::LockLost("it has expired"));
    }
    let mut item = lock.item.document.clone();
    item.locked_until = Some(now + extend_for);
    item.visible_at = now + extend_for;
    let patch = Patch::<WorkerItem>::new()
        .set(WorkerItem::LOCKED_UNTIL, item.locked_until)
        .set(WorkerItem::VISIBLE_AT, item.visible_at);
    match keep(&inner.container, &lock.item, &patch).await? {
        Kept::Written(etag) => {
            inner.work.extend(&lock.item, now + extend_for);
            lock.advance(item, etag);
            inner
                .sessions
                .touch(&inner.container, &lock.item.document, now)
                .await;
            Ok(())
        }
        // Ours, renewed or not: the caller renews again well before the lock ends.
        Kept::Held(stored) => {
            let Stored { document, etag, .. } = *stored;
            lock.advance(document, etag);
            Ok(())
        }
        Kept::Lost => {
            inner.work.remove(&mut lock);
            Err(Error::LockLost(LOST))
        }
    }
}
