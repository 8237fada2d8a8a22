//! Extending the lock of an activity that takes longer.

use std::time::Duration;

use cdb_model::{Batch, Patch};
use duroxide::providers::ProviderError;

use super::LOST;
use super::fetch::read;
use crate::documents::{Durable, WorkerItem};
use crate::error::{lock_lost, provider_error, unreadable};
use crate::provider::Inner;

const RENEW: &str = "renew_work_item_lock";

/// Implements `Provider::renew_work_item_lock`. A lock that cannot be renewed tells the worker that its activity was
/// cancelled.
pub(crate) async fn renew(
    inner: &Inner,
    token: &str,
    extend_for: Duration,
) -> Result<(), ProviderError> {
    let shared = inner.work.get(RENEW, token)?;
    let mut lock = shared.lock().await;
    let now = inner.container.now();
    if !lock.holds(now) {
        inner.work.remove(&mut lock);
        return Err(lock_lost(RENEW, "it has expired"));
    }
    let mut item = lock.item.document.clone();
    item.locked_until = Some(now + extend_for);
    item.visible_at = now + extend_for;
    let patch = Patch::<WorkerItem>::new()
        .set(WorkerItem::LOCKED_UNTIL, item.locked_until)
        .set(WorkerItem::VISIBLE_AT, item.visible_at);
    let mut batch = Batch::<Durable>::new(&*item.instance_id);
    let renewed = batch
        .patch_stored(&lock.item, &patch)
        .map_err(|error| unreadable(RENEW, error))?;
    match inner.container.execute(&batch).await {
        Ok(outcome) => {
            let etag = outcome.etag(renewed).unwrap_or(&lock.item.etag).clone();
            inner.work.extend(&lock.item, now + extend_for);
            lock.advance(item, etag);
            inner
                .sessions
                .touch(&inner.container, &lock.item.document, now)
                .await;
            Ok(())
        }
        Err(error) if error.is_ambiguous() => {
            match read(inner, RENEW, &lock.item.document).await? {
                // Ours, renewed or not: the caller renews again well before the lock ends.
                Some(stored) if stored.document.lock_token.as_deref() == Some(token) => {
                    lock.advance(stored.document, stored.etag);
                    Ok(())
                }
                _ => Err(lock_lost(RENEW, LOST)),
            }
        }
        Err(error) if error.is_not_found() || error.is_precondition_failed() => {
            inner.work.remove(&mut lock);
            Err(lock_lost(RENEW, LOST))
        }
        Err(error) => Err(provider_error(RENEW, &error)),
    }
}
