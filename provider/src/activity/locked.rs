//! What a request may still do under the lock of an activity.

use cdb_model::Timestamp;

use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::activities::WorkLock;
use crate::stored::Store;
use crate::timing::RETRY_PAUSE;

/// Returns the service's time, at which the lock has not expired. Ends the processing of the activity
/// otherwise.
///
/// # Errors
/// Fails when the lock has expired.
pub(super) fn require_lock(services: &Services, lock: &mut WorkLock) -> Result<Timestamp> {
    let now = services.store.now();
    if lock.holds(now) {
        return Ok(now);
    }
    services.activities().finish(lock);
    Err(Error::LockLost("it has expired"))
}

/// Waits before a retry if the failure `is_transient` and the lock outlasts the wait. Returns
/// whether to retry. The runtime calls only once: after an error it repeats the activity, however
/// long it took.
pub(super) async fn wait_to_retry(store: &Store, lock: &WorkLock, is_transient: bool) -> bool {
    let waits = is_transient && lock.holds(store.now() + RETRY_PAUSE);
    if waits {
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    waits
}
