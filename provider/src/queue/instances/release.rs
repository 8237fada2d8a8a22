//! Releases locks of turns: of a turn that was not handed out, an unused prelock, or all at
//! shutdown. Other processes need not wait until they expire.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_model::Stored;
use futures::StreamExt as _;
use futures::stream;

use super::lock::{attempts_before, unlock_patch};
use super::turn::Turn;
use crate::queue::Services;
use crate::stored::documents::Instance;
use crate::stored::{Store, history};

/// The number of concurrent releases.
const CONCURRENCY: usize = 16;

/// Releases prelocks that are at least `age` old, and locks that dropped fetches may have taken.
pub(crate) async fn release_unused(services: &Services, age: Duration) {
    release_prelocks(services, age).await;
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

/// Releases the turns of this process that the runtime has broken off. Waits for a turn that is
/// being committed.
pub(crate) async fn release_running(services: &Services) {
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
}

/// Releases a lock that may have been taken with this token at an unknown version. `attempts`
/// returns the attempt counts to keep. Reads the latest commit, because this process may not have
/// got the answer that contains the session token of the lock.
pub(crate) async fn release_taken(
    services: &Services,
    instance_id: &str,
    token: &str,
    attempts: impl FnOnce(&Instance) -> BTreeMap<String, u32>,
) {
    let latest = services.container().latest_committed();
    match history::read_instance(&latest, instance_id).await {
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

/// Releases an instance that a failed member has locked. The attempt counts, as after an expiry.
pub(crate) async fn take_over(services: &Services, locked: &Stored<Instance>) {
    let instance = &locked.document;
    unlock_with(&services.store, locked, instance.attempts.clone()).await;
    let execution = Some(instance.current_execution_id);
    services
        .instances()
        .recheck(&instance.instance_id, execution, Duration::ZERO);
}

/// Releases the lock of a turn. The attempt does not count.
pub(crate) async fn unlock(store: &Store, turn: &Turn) {
    unlock_with(store, &turn.instance, attempts_before(turn)).await;
}

/// Releases the lock of a turn whose messages are consumed. Deletes an instance that only this lock
/// has created: the start was consumed by a turn of an instance that is deleted since.
pub(crate) async fn unlock_outdated(store: &Store, turn: &Turn) {
    let instance = &turn.instance.document;
    if instance.is_created() || instance.commit_token.is_some() {
        return unlock(store, turn).await;
    }
    if let Err(error) = store.container.delete_stored(&turn.instance).await {
        tracing::debug!(%error, "a pending instance was not deleted");
    }
}

async fn unlock_with(store: &Store, instance: &Stored<Instance>, attempts: BTreeMap<String, u32>) {
    let patch = unlock_patch(attempts, store.now());
    if let Err(error) = store.container.patch_stored(instance, &patch).await {
        tracing::debug!(%error, "a lock was not released; it will expire");
    }
}
