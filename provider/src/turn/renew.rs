//! Extending the lock of a turn that takes longer.

use std::time::Duration;

use cdb_coordination::{Kept, keep};
use cdb_model::{Patch, Stored, Timestamp};

use super::table::Turn;
use crate::documents::Instance;
use crate::error::{Error, Result};
use crate::provider::Inner;

/// How long a lock is renewed for where no dispatcher says how long it asks for.
const USUAL_TIMEOUT: Duration = Duration::from_secs(5);

const LOST: &str = "another runtime took it, or it was deleted";

/// Implements `Provider::renew_orchestration_item_lock`.
pub(crate) async fn renew(inner: &Inner, token: &str, extend_for: Duration) -> Result<()> {
    let shared = inner.turns.get(token)?;
    let mut turn = shared.lock().await;
    let now = inner.container.now();
    if !turn.holds(now) {
        return Err(Error::LockLost("it has expired"));
    }
    if extend(inner, &mut turn, now + extend_for).await? {
        Ok(())
    } else {
        Err(Error::LockLost(LOST))
    }
}

/// Waits for something that a commit has to do first, and keeps the lock meanwhile.
pub(super) async fn while_doing<T>(
    inner: &Inner,
    turn: &mut Turn,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let timeout = inner.turns.lock_timeout().unwrap_or(USUAL_TIMEOUT);
    tokio::pin!(work);
    loop {
        if let Ok(done) = tokio::time::timeout(timeout / 3, &mut work).await {
            return done;
        }
        let until = inner.container.now() + timeout;
        if !extend(inner, turn, until).await? {
            return Err(Error::LockLost(LOST));
        }
    }
}

/// Moves the end of the lock, unless it is lost. After a lost answer it may stay where it was: whoever renews does so
/// again well before the lock ends.
pub(super) async fn extend(inner: &Inner, turn: &mut Turn, until: Timestamp) -> Result<bool> {
    let patch = Patch::<Instance>::new().set(Instance::LOCKED_UNTIL, Some(until));
    match keep(&inner.container, &turn.instance, &patch).await? {
        Kept::Written(etag) => {
            let mut instance = turn.instance.document.clone();
            instance.locked_until = Some(until);
            inner.turns.extend(&instance.instance_id, turn.claim, until);
            turn.advance(instance, etag);
        }
        Kept::Held(stored) => {
            let Stored { document, etag, .. } = *stored;
            turn.advance(document, etag);
        }
        Kept::Lost => return Ok(false),
    }
    Ok(true)
}
