//! Renews the lock of an activity that runs for longer than its lock. duroxide asks for it before the lock
//! expires.

use std::time::Duration;

use cdb_coordination::lease::{Renewed, renew_lock};
use cdb_model::{Document as _, Patch, Stored};

use super::LOST;
use super::locked::{require_lock, wait_to_retry};
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::activities::{EffectsState, WorkLock};
use crate::stored::documents::WorkerItem;

/// Implements `Provider::renew_work_item_lock`.
///
/// The runtime treats every error as a cancellation and acknowledges the activity without a result.
/// So the renewal is retried while the lock lasts, and a failure other than a lost lock is noted
/// for that acknowledgement.
pub(crate) async fn renew(services: &Services, token: &str, extend_for: Duration) -> Result<()> {
    let shared = services.activities().local().running(token)?;
    let mut lock = shared.lock().await;
    if lock.effects == EffectsState::Committed {
        return Ok(());
    }
    let now = require_lock(services, &mut lock)?;
    let activities = services.activities();
    let extend_for = activities.lock_time(&lock.item.document.key(), extend_for);
    if Some(now + extend_for) <= lock.item.document.locked_until {
        // The activity has a limit, so its lock ends with the lease of this process, which has no later end
        // yet.
        return Ok(());
    }
    let renewed = extend(services, &mut lock, extend_for).await;
    lock.renewal_failed = renewed.is_err();
    match renewed? {
        Renewed::Written(_) => {
            services.queues.sessions.touch(&lock.item.document).await;
            Ok(())
        }
        Renewed::StillLocked(_) => Ok(()),
        Renewed::Lost => {
            services.activities().finish(&mut lock);
            Err(Error::LockLost(LOST))
        }
    }
}

/// Extends the lock, unless it is lost. Retries while the store does not answer and the lock lasts.
async fn extend(
    services: &Services,
    lock: &mut WorkLock,
    extend_for: Duration,
) -> Result<Renewed<WorkerItem>, cdb_client::Error> {
    loop {
        let until = services.store.now() + extend_for;
        let patch = Patch::<WorkerItem>::new()
            .set(WorkerItem::LOCKED_UNTIL, Some(until))
            .set(WorkerItem::VISIBLE_AT, until);
        let renewed = renew_lock(services.container(), &lock.item, &patch).await;
        match &renewed {
            Err(error) if wait_to_retry(&services.store, lock, error.is_transient()).await => {
                continue;
            }
            Ok(Renewed::Written(etag)) => {
                let item = &mut lock.item.document;
                item.locked_until = Some(until);
                item.visible_at = until;
                lock.item.etag = etag.clone();
            }
            Ok(Renewed::StillLocked(stored)) => {
                lock.item = Stored::clone(stored);
                // An operator has paused or resumed the instance, or the renewal did not arrive.
                if lock.item.document.locked_until < Some(until)
                    && wait_to_retry(&services.store, lock, true).await
                {
                    continue;
                }
            }
            Ok(Renewed::Lost) | Err(_) => return renewed,
        }
        let until = lock.item.document.locked_until.unwrap_or_default();
        let until = services.store.local_time(until);
        services.activities().local().extend(&lock.token, until);
        return renewed;
    }
}
