//! Giving locks back, so that others need not wait until they end by themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_model::Stored;
use futures::StreamExt as _;
use futures::stream;

use super::lock::{attempts_before, unlock_patch};
use super::table::Turn;
use crate::documents::Instance;
use crate::history;
use crate::services::Services;

/// How many locks are given back at the same time.
const AT_ONCE: usize = 16;

/// How long a turn that was locked ahead waits for a dispatcher before its lock is given back.
const UNWANTED_AFTER: Duration = Duration::from_secs(1);

/// Gives back the locks that no dispatcher has asked for, and those that dropped fetches may have taken.
pub(crate) async fn give_back_unwanted(inner: &Services) {
    give_back_ahead(inner, UNWANTED_AFTER).await;
    give_back_dropped(inner).await;
}

/// Gives back the locks that were taken at least `age` ago and that no dispatcher has begun to use.
pub(crate) async fn give_back_ahead(inner: &Services, age: Duration) {
    let unwanted = inner.instances.take_unwanted(age);
    stream::iter(unwanted)
        .for_each_concurrent(AT_ONCE, |(claim, turn)| async move {
            unlock(inner, &turn).await;
            inner.instances.released(&claim);
        })
        .await;
}

/// Gives back locks that dropped fetches may have taken.
async fn give_back_dropped(inner: &Services) {
    let dropped = inner.instances.take_dropped();
    stream::iter(dropped)
        .for_each_concurrent(AT_ONCE, |(claim, token)| async move {
            let attempts = |instance: &Instance| instance.attempts.clone();
            release_taken(inner, &claim.key, &token, attempts).await;
            inner.instances.released(&claim);
        })
        .await;
}

/// Gives back all locks of this process: those too of turns that their runtime has broken off, and of fetches that it
/// has dropped. A turn that is being committed at this moment is waited for.
pub(crate) async fn give_back_all(inner: &Services) {
    give_back_ahead(inner, Duration::ZERO).await;
    stream::iter(inner.instances.turns())
        .for_each_concurrent(AT_ONCE, |shared| async move {
            let mut turn = shared.lock().await;
            if turn.holds(inner.container.now()) {
                let instance_id = turn.instance.document.instance_id.clone();
                // By its token: a renewal or commit that was dropped may have moved the version.
                let attempts = attempts_before(&turn);
                release_taken(inner, &instance_id, &turn.token, |_| attempts).await;
                inner.instances.finish(&mut turn);
            }
        })
        .await;
    give_back_dropped(inner).await;
}

/// Gives back a lock of which the token is known and not the version, if it was taken. `attempts` are those that it leaves.
pub(super) async fn release_taken(
    inner: &Services,
    instance_id: &str,
    token: &str,
    attempts: impl FnOnce(&Instance) -> BTreeMap<String, u32>,
) {
    match history::read_instance(&inner.container, instance_id).await {
        Ok(Some(stored)) if stored.document.lock_token.as_deref() == Some(token) => {
            let attempts = attempts(&stored.document);
            unlock_with(inner, &stored, attempts).await;
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "a lock is left to end by itself"),
    }
    inner.instances.suspect(instance_id, None, Duration::ZERO);
}

/// Gives the lock of a turn back. The attempt does not count.
pub(super) async fn unlock(inner: &Services, turn: &Turn) {
    unlock_with(inner, &turn.instance, attempts_before(turn)).await;
}

async fn unlock_with(
    inner: &Services,
    instance: &Stored<Instance>,
    attempts: BTreeMap<String, u32>,
) {
    let patch = unlock_patch(attempts, inner.container.now());
    if let Err(error) = inner.container.patch_stored(instance, &patch).await {
        tracing::debug!(%error, "a lock is left to end by itself");
    }
}
