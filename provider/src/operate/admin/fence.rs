//! Takes the lock of a running instance for its deletion, whichever process holds it. No turn of the
//! instance is committed any more, so its children are all that it will have.
//!
//! If the deletion is interrupted, the lock ends, and the instance continues.

use cdb_coordination::lock;
use cdb_model::{Patch, Query, Stored, Timestamp};

use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::{Instance, Partial as _};
use crate::timing::{OPERATOR_ATTEMPTS, OPERATOR_LOCK};

/// The end of a lock token of a deletion. Several deletions of an instance go on side by side.
const DELETION: &str = "/deletion";

/// Returns an instance, decoded or not, by its latest commit.
pub(super) async fn find(services: &Services, id: &str) -> Result<Option<Stored<Instance>>> {
    let query = Query::<Instance>::in_partition(id);
    let latest = services.container().latest_committed();
    let found = latest.query(query).row_by_row().first().await?;
    Ok(found.and_then(|row| {
        row.or_else(|found| Instance::partial_stored(&found).ok_or(()))
            .ok()
    }))
}

/// Prevents further commits of an instance. Returns it if turns of it could follow.
///
/// # Errors
/// Fails when other processes keep changing the instance, or the service does not answer.
pub(super) async fn fence(services: &Services, id: &str) -> Result<Option<Instance>> {
    for _ in 0..OPERATOR_ATTEMPTS {
        let Some(found) = find(services, id).await? else {
            return Ok(None);
        };
        if !found.document.has_more() {
            return Ok(None);
        }
        let token = format!("{}{DELETION}", services.store.new_lock_token());
        let until = services.store.now() + OPERATOR_LOCK;
        let patch = Patch::<Instance>::new()
            .set(Instance::LOCK_TOKEN, Some(token.clone()))
            .set(Instance::LOCKED_UNTIL, Some(until));
        // Conditional on the version, so the holder of the lock cannot commit either.
        if lock(services.container(), &found, &patch, &token)
            .await?
            .is_some()
        {
            return Ok(Some(found.document));
        }
    }
    Err(Error::Retryable(format!(
        "instance {id} keeps changing; try again"
    )))
}

/// Returns whether a deletion holds the lock of an instance at this time.
pub(super) fn holds(instance: &Instance, now: Timestamp) -> bool {
    let mut token = instance.lock_token.iter();
    token.any(|token| token.ends_with(DELETION)) && instance.locked_until > Some(now)
}
