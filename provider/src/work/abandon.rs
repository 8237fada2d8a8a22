//! Giving an activity back without a result.

use std::time::Duration;

use cdb_model::{Batch, Patch};
use duroxide::providers::ProviderError;

use super::LOST;
use crate::documents::{Durable, WorkerItem};
use crate::error::{lock_lost, provider_error, unreadable};
use crate::provider::Inner;

const ABANDON: &str = "abandon_work_item";

/// Implements `Provider::abandon_work_item`.
pub(crate) async fn abandon(
    inner: &Inner,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<(), ProviderError> {
    let shared = inner.work.get(ABANDON, token)?;
    let mut lock = shared.lock().await;
    if lock.ended {
        return Err(lock_lost(ABANDON, "the activity has ended"));
    }
    let delay = delay.unwrap_or_default();
    let mut item = lock.item.document.clone();
    item.lock_token = None;
    item.locked_until = None;
    item.visible_at = inner.container.now() + delay;
    if ignore_attempt {
        item.attempt_count = item.attempt_count.saturating_sub(1);
    }
    let patch = Patch::<WorkerItem>::new()
        .set(WorkerItem::LOCK_TOKEN, None)
        .set(WorkerItem::LOCKED_UNTIL, None)
        .set(WorkerItem::VISIBLE_AT, item.visible_at)
        .set(WorkerItem::ATTEMPT_COUNT, item.attempt_count);
    let mut batch = Batch::<Durable>::new(&*item.instance_id);
    let released = batch
        .patch_stored(&lock.item, &patch)
        .map_err(|error| unreadable(ABANDON, error))?;
    let written = inner.container.execute(&batch).await;
    inner.work.remove(&mut lock);
    match written {
        Ok(outcome) => {
            if let Some(etag) = outcome.etag(released) {
                let mut stored = lock.item.clone();
                stored.document = item;
                stored.etag = etag.clone();
                inner.hint_free(stored, delay);
            }
            Ok(())
        }
        Err(error) if error.is_not_found() || error.is_precondition_failed() => {
            Err(lock_lost(ABANDON, LOST))
        }
        // Applied or not, the lock ends by itself.
        Err(error) => Err(provider_error(ABANDON, &error)),
    }
}
