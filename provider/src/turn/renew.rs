//! Renews the lock of a long turn.

use std::pin::pin;
use std::time::Duration;

use cdb_coordination::{Kept, Lockable as _, keep};
use cdb_model::{Patch, Stored};
use futures::future::{Either, select};

use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::instances::Turn;
use crate::queue::instances::lock::attempts_before;
use crate::stored::documents::Instance;
use crate::timing::RENEWAL;

const LOST: &str = "another runtime took it, or it was deleted";

/// Implements `Provider::renew_orchestration_item_lock`. A running commit renews the lock itself.
pub(crate) async fn renew(services: &Services, token: &str, extend_for: Duration) -> Result<()> {
    let shared = services.instances().local().running(token)?;
    let Ok(mut turn) = shared.try_lock() else {
        return Ok(());
    };
    if !turn.holds(services.store.now()) {
        return Err(Error::LockLost("it has expired"));
    }
    turn.lock_time = extend_for;
    if extend(services, &mut turn).await? {
        Ok(())
    } else {
        Err(Error::LockLost(LOST))
    }
}

/// Runs work that precedes a commit, and renews the lock until it is done.
///
/// # Errors
/// Fails when the work fails, or the lock is lost.
pub(crate) async fn while_doing<T>(
    services: &Services,
    turn: &mut Turn,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::pin!(work);
    loop {
        if let Ok(done) = tokio::time::timeout(turn.lock_time / RENEWAL, &mut work).await {
            return done;
        }
        let mut done = None;
        let renewal = pin!(extend_for_commit(services, turn));
        let renewed = match select(renewal, &mut work).await {
            Either::Left((renewed, _)) => renewed,
            // The renewal changes the version that the commit is conditional on.
            Either::Right((ended, renewal)) => {
                done = Some(ended);
                renewal.await
            }
        };
        match renewed {
            Ok(true) => {}
            Ok(false) => return Err(Error::LockLost(LOST)),
            // The next renewal or the commit detects whether the lock is lost.
            Err(error) if error.is_retryable() => {}
            Err(error) => return Err(error),
        }
        if let Some(done) = done {
            return done;
        }
    }
}

/// Renews the lock for a commit, without the attempt of the lock: a turn that can be committed does
/// not count as failed because its commit takes long. Returns whether the lock is still held.
pub(crate) async fn extend_for_commit(services: &Services, turn: &mut Turn) -> Result<bool> {
    turn.uncounted = Some(attempts_before(turn));
    extend(services, turn).await
}

/// Renews the lock for its full time. Returns `false` when it is lost. After a lost answer the
/// expiry may be unchanged; the caller renews again well before it.
pub(crate) async fn extend(services: &Services, turn: &mut Turn) -> Result<bool> {
    let until = services.store.now() + turn.lock_time;
    let mut patch = Patch::<Instance>::new().set(Instance::LOCKED_UNTIL, Some(until));
    if let Some(attempts) = &turn.uncounted {
        patch = patch.set(Instance::ATTEMPTS, attempts.clone());
    }
    match keep(services.container(), &turn.instance, &patch).await? {
        Kept::Written(etag) => {
            let mut instance = turn.instance.document.clone();
            instance.locked_until = Some(until);
            if let Some(attempts) = &turn.uncounted {
                instance.attempts.clone_from(attempts);
            }
            turn.advance(instance, etag);
        }
        Kept::Held(stored) => {
            let Stored { document, etag, .. } = *stored;
            turn.advance(document, etag);
        }
        Kept::Lost => return Ok(false),
    }
    let until = turn.instance.document.locked_until().unwrap_or_default();
    let until = services.store.local_time(until);
    services.instances().local().extend(&turn.token, until);
    Ok(true)
}
