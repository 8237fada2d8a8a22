//! Takes the lock of a running instance for its deletion, whichever process holds it. No turn of the
//! instance is committed any more, so its children are all that it will have.
//!
//! If the deletion is interrupted, the lock ends, and the instance continues.

use cdb_coordination::lease::lock;
use cdb_model::{Patch, Timestamp};

use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::{Incarnation, Instance};
use crate::stored::found::find;
use crate::timing::{OPERATOR_ATTEMPTS, OPERATOR_LOCK};

/// The end of a lock token of a deletion. Several deletions of an instance go on side by side.
const DELETION: &str = "/deletion";

/// What became of an instance that was to be fenced.
pub(super) enum Fenced {
    /// Turns of it could follow, and none is committed any more.
    Running(Box<Instance>),
    Ended,
    /// It was deleted. There may be a later instance with its id.
    Gone,
}

/// Prevents further commits of an instance.
///
/// # Errors
/// Fails when other processes keep changing the instance, or the service does not answer.
pub(super) async fn fence(services: &Services, instance: &Incarnation) -> Result<Fenced> {
    let id = &*instance.instance_id;
    for _ in 0..OPERATOR_ATTEMPTS {
        let found = find(services.container(), id).await?;
        let Some(found) = found.filter(|found| found.incarnation.is(instance)) else {
            return Ok(Fenced::Gone);
        };
        let found = found.stored;
        if !found.document.has_more() {
            return Ok(Fenced::Ended);
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
            return Ok(Fenced::Running(Box::new(found.document)));
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
