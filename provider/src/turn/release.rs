//! Giving locks back, so that others need not wait until they end by themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_model::Stored;
use futures::StreamExt as _;
use futures::stream;

use super::lock::{attempts_before, unlock_patch};
use crate::documents::Instance;
use crate::history;
use crate::instances::Turn;
use crate::services::Services;
use crate::store::Store;

/// How many locks are given back at the same time.
const AT_ONCE: usize = 16;

/// How long a turn that was locked ahead waits for a dispatcher before its lock is given back.
const UNWANTED_AFTER: Duration = Duration::from_secs(1);

/// Gives back the locks that no dispatcher has asked for, and those that dropped fetches may have taken.
pub(crate) async fn give_back_unwanted(services: &Services) {
    give_back_ahead(services, UNWANTED_AFTER).await;
    give_back_dropped(services).await;
}

/// Gives back the locks that were taken at least `age` ago and that no dispatcher has begun to use.
pub(crate) async fn give_back_ahead(services: &Services, age: Duration) {
    let unwanted = services.instances().local().take_unwanted(age);
    stream::iter(unwanted)
        .for_each_concurrent(AT_ONCE, |(claim, turn)| async move {
            unlock(&services.store, &turn).await;
            services.instances().local().released(&claim);
        })
        .await;
}

/// Gives back locks that dropped fetches may have taken.
async fn give_back_dropped(services: &Services) {
    let dropped = services.instances().local().take_dropped();
    stream::iter(dropped)
        .for_each_concurrent(AT_ONCE, |(claim, token)| async move {
            let attempts = |instance: &Instance| instance.attempts.clone();
            release_taken(services, &claim.key, &token, attempts).await;
            services.instances().local().released(&claim);
        })
        .await;
}

/// Gives back all locks of this process: those too of turns that their runtime has broken off, and of fetches that it
/// has dropped. A turn that is being committed at this moment is waited for.
pub(crate) async fn give_back_all(services: &Services) {
    give_back_ahead(services, Duration::ZERO).await;
    stream::iter(services.instances().local().all_running())
        .for_each_concurrent(AT_ONCE, |shared| async move {
            let mut turn = shared.lock().await;
            if turn.holds(services.store.now()) {
                let instance_id = turn.instance.document.instance_id.clone();
                // By its token: a renewal or commit that was dropped may have moved the version.
                let attempts = attempts_before(&turn);
                release_taken(services, &instance_id, &turn.token, |_| attempts).await;
                services.instances().finish(&mut turn);
            }
        })
        .await;
    give_back_dropped(services).await;
}

/// Gives back a lock of which the token is known and not the version, if it was taken. `attempts` are those that it leaves.
pub(crate) async fn release_taken(
    services: &Services,
    instance_id: &str,
    token: &str,
    attempts: impl FnOnce(&Instance) -> BTreeMap<String, u32>,
) {
    match history::read_instance(services.container(), instance_id).await {
        Ok(Some(stored)) if stored.document.lock_token.as_deref() == Some(token) => {
            let attempts = attempts(&stored.document);
            unlock_with(&services.store, &stored, attempts).await;
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "a lock is left to end by itself"),
    }
    services
        .instances()
        .suspect(instance_id, None, Duration::ZERO);
}

/// Gives the lock of a turn back. The attempt does not count.
pub(crate) async fn unlock(store: &Store, turn: &Turn) {
    unlock_with(store, &turn.instance, attempts_before(turn)).await;
}

async fn unlock_with(store: &Store, instance: &Stored<Instance>, attempts: BTreeMap<String, u32>) {
    let patch = unlock_patch(attempts, store.now());
    if let Err(error) = store.container.patch_stored(instance, &patch).await {
        tracing::debug!(%error, "a lock is left to end by itself");
    }
}
