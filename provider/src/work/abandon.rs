//! Giving an activity back without a result.

use std::time::Duration;

use duroxide::providers::ProviderError;

use super::LOST;
use super::ahead::{lock_patch, unlocked};
use crate::error::{lock_lost, provider_error};
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
    let visible_at = inner.container.now() + delay;
    let item = unlocked(lock.item.document.clone(), visible_at, !ignore_attempt);
    let patch = lock_patch(&item);
    let written = inner.container.patch_stored(&lock.item, &patch).await;
    inner.work.remove(&mut lock);
    match written {
        Ok(written) => {
            let mut stored = lock.item.clone();
            stored.document = item;
            stored.etag = written.etag;
            inner.hint_free(stored, delay);
            Ok(())
        }
        Err(error) if error.is_not_found() || error.is_precondition_failed() => {
            Err(lock_lost(ABANDON, LOST))
        }
        // Applied or not, the lock ends by itself.
        Err(error) => Err(provider_error(ABANDON, &error)),
    }
}
