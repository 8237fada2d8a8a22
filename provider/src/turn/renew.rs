//! Renews the lock of a long turn.

use std::pin::pin;
use std::time::Duration;

use cdb_coordination::lease::{Lockable as _, Renewed, renew_lock};
use cdb_model::{Patch, Timestamp};
use futures::future::{Either, select};

use super::lock;
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::instances::Turn;
use crate::queue::instances::lock::attempts_before;
use crate::stored::documents::Instance;
use crate::timing::{RENEWAL, STORE_LOCK};

pub(super) const LOST: &str = "another runtime took it, or it was deleted";

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

/// Renews the lock for its full time, or stores it for the first time. Returns `false` when it is
/// lost. After a lost answer the expiry may be unchanged; the caller renews again well before it.
pub(crate) async fn extend(services: &Services, turn: &mut Turn) -> Result<bool> {
    let until = services.store.now() + turn.lock_time;
    if turn.begins_unstored() {
        // No other process knows the instance.
        turn.instance.document.locked_until = Some(until);
        return Ok(true);
    }
    let mut instance = turn.instance.document.clone();
    instance.locked_until = Some(until);
    let mut patch = Patch::<Instance>::new().set(Instance::LOCKED_UNTIL, Some(until));
    if let Some(attempts) = &turn.uncounted {
        patch = patch.set(Instance::ATTEMPTS, attempts.clone());
        instance.attempts.clone_from(attempts);
    }
    match turn.instance.stored() {
        Some(locked) if turn.is_locked() => {
            match renew_lock(services.container(), &locked, &patch).await? {
                Renewed::Written(etag) => turn.advance(instance, etag),
                Renewed::StillLocked(stored) => turn.advance(stored.document, stored.etag),
                Renewed::Lost => return Ok(false),
            }
        }
        seen => {
            let (store, token) = (&services.store, &turn.token);
            let written = match (&seen, turn.messages.first_mut()) {
                (None, Some(first)) => lock::create(store, &instance, first, token).await?,
                _ => lock::write(store, seen.as_ref(), &instance, token).await?,
            };
            let Some(etag) = written else {
                return Ok(false);
            };
            turn.advance(instance, etag);
        }
    }
    turn.reserved_until = None;
    let until = turn.instance.document.locked_until().unwrap_or_default();
    let until = services.store.local_time(until);
    services.instances().local().extend(&turn.token, until);
    Ok(true)
}

/// Stores the lock of a reserved turn that is still running shortly before its reservation ends.
pub(crate) async fn lock_in_time(services: Services, token: String, until: Timestamp) {
    let left = until.since(services.store.now()).saturating_sub(STORE_LOCK);
    let closing = services.store.tasks.closing();
    if closing
        .run_until_cancelled(tokio::time::sleep(left))
        .await
        .is_none()
    {
        return;
    }
    let Ok(shared) = services.instances().local().running(&token) else {
        return;
    };
    // A commit that is running stores the lock itself when it must be sent again.
    let Ok(mut turn) = shared.try_lock() else {
        return;
    };
    if !turn.ended && !turn.is_locked() {
        // Without the lock, the commit detects whether another runtime has taken the instance.
        let _stored = extend(&services, &mut turn).await;
    }
}
