//! Releases an activity without a result.

use std::time::Duration;

use super::LOST;
use super::lock::{lock_patch, unlocked};
use crate::error::{Error, Result};
use crate::services::Services;

/// Implements `Provider::abandon_work_item`.
pub(crate) async fn abandon(
    services: &Services,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<()> {
    let shared = services.activities().local().running(token)?;
    let mut lock = shared.lock().await;
    if lock.ended {
        return Err(Error::LockLost("the activity has ended"));
    }
    let delay = delay.unwrap_or_default();
    let visible_at = services.store.now() + delay;
    let item = unlocked(lock.item.document.clone(), visible_at, !ignore_attempt);
    let patch = lock_patch(&item);
    let written = services.container().patch_stored(&lock.item, &patch).await;
    services.activities().finish(&mut lock);
    match written {
        Ok(written) => {
            let mut stored = lock.item.clone();
            stored.document = item;
            stored.etag = written.etag;
            services.activities().note_free(stored, delay);
            Ok(())
        }
        Err(error) if error.is_not_found() || error.is_precondition_failed() => {
            Err(Error::LockLost(LOST))
        }
        // Applied or not, the lock expires.
        Err(error) => Err(error.into()),
    }
}
