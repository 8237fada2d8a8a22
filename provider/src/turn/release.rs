//! Releases locks of turns, so that other processes need not wait until they expire.

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

/// The number of concurrent releases.
const CONCURRENCY: usize = 16;

/// The age at which an unused prelock is released.
const UNUSED_AFTER: Duration = Duration::from_secs(1);

/// Releases unused prelocks, and locks that dropped fetches may have taken.
pub(crate) async fn release_unused(services: &Services) {
    release_prelocks(services, UNUSED_AFTER).await;
    release_dropped(services).await;
}

/// Releases prelocks that are at least `age` old.
pub(crate) async fn release_prelocks(services: &Services, age: Duration) {
    let unused = services.instances().local().take_unused(age);
    stream::iter(unused)
        .for_each_concurrent(CONCURRENCY, |(claim, turn)| async move {
            unlock(&services.store, &turn).await;
            services.instances().local().released(&claim);
        })
        .await;
}

/// Releases locks that dropped fetches may have taken.
async fn release_dropped(services: &Services) {
    let dropped = services.instances().local().take_dropped();
    stream::iter(dropped)
        .for_each_concurrent(CONCURRENCY, |(claim, token)| async move {
            let attempts = |instance: &Instance| instance.attempts.clone();
            release_taken(services, &claim.key, &token, attempts).await;
            services.instances().local().released(&claim);
        })
        .await;
}

/// Releases all locks of this process, also those of turns and fetches that the runtime has broken
/// off. Waits for a turn that is being committed.
pub(crate) async fn release_all(services: &Services) {
    release_prelocks(services, Duration::ZERO).await;
    stream::iter(services.instances().local().all_running())
        .for_each_concurrent(CONCURRENCY, |shared| async move {
            let mut turn = shared.lock().await;
            if turn.holds(services.store.now()) {
                let instance_id = turn.instance.document.instance_id.clone();
                // By its token, because a dropped renewal or commit may have changed the version.
                let attempts = attempts_before(&turn);
                release_taken(services, &instance_id, &turn.token, |_| attempts).await;
                services.instances().finish(&mut turn);
            }
        })
        .await;
    release_dropped(services).await;
}

/// Releases a lock that may have been taken with this token at an unknown version. `attempts`
/// returns the attempt counts to keep.
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
        Err(error) => tracing::debug!(%error, "a lock was not released; it will expire"),
    }
    services
        .instances()
        .recheck(instance_id, None, Duration::ZERO);
}

/// Releases the lock of a turn. The attempt does not count.
pub(crate) async fn unlock(store: &Store, turn: &Turn) {
    unlock_with(store, &turn.instance, attempts_before(turn)).await;
}

async fn unlock_with(store: &Store, instance: &Stored<Instance>, attempts: BTreeMap<String, u32>) {
    let patch = unlock_patch(attempts, store.now());
    if let Err(error) = store.container.patch_stored(instance, &patch).await {
        tracing::debug!(%error, "a lock was not released; it will expire");
    }
}
