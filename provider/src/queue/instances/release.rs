//! Releases locks of instances.

use std::collections::BTreeMap;
use std::convert::Infallible;

use cdb_model::Stored;

use super::known::Instances;
use super::lock::{attempts_before, one_less, unlock_patch};
use super::turn::Turn;
use crate::queue::Services;
use crate::queue::local_queue::Shared;
use crate::queue::release::Locked;
use crate::stored::documents::Instance;
use crate::stored::{Store, history};

impl Locked for Instances {
    type Released = ();

    async fn release_prelock(_services: &Services, lock: Infallible) {
        match lock {}
    }

    async fn release_taken(services: &Services, instance_id: &String, token: &str) {
        let attempts = |instance: &Instance| one_less(&instance.attempts);
        release_taken(services, instance_id, token, attempts).await;
    }

    async fn release_running(services: &Services, running: Shared<Self>) {
        let mut turn = running.lock().await;
        if turn.holds(services.store.now()) && turn.is_locked() {
            let instance_id = turn.instance.document.instance_id.clone();
            // By its token, because a dropped renewal or commit may have changed the version.
            let attempts = attempts_before(&turn);
            release_taken(services, &instance_id, &turn.token, |_| attempts).await;
        }
        if !turn.ended {
            services.instances().finish(&mut turn);
        }
    }
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
    let now = services.store.now();
    services.instances().recheck(instance_id, None, now);
}

/// Releases an instance that a failed member has locked. The attempt counts, as after an expiry.
pub(crate) async fn take_over(services: &Services, locked: &Stored<Instance>) {
    let instance = &locked.document;
    unlock_with(&services.store, locked, instance.attempts.clone()).await;
    let execution = Some(instance.current_execution_id);
    services
        .instances()
        .recheck(&instance.instance_id, execution, services.store.now());
}

/// Releases the lock of a turn, if it is stored. The attempt does not count.
pub(crate) async fn unlock(store: &Store, turn: &Turn) {
    if let Some(locked) = turn.instance.stored().filter(|_| turn.is_locked()) {
        unlock_with(store, &locked, attempts_before(turn)).await;
    }
}

/// Releases the lock of a turn whose messages are consumed. Deletes an instance that only this lock
/// has created: the start was consumed by a turn of an instance that is deleted since.
pub(crate) async fn unlock_outdated(store: &Store, turn: &Turn) {
    let instance = &turn.instance.document;
    if !turn.is_locked() || instance.is_created() || instance.commit_token.is_some() {
        return unlock(store, turn).await;
    }
    let Some(locked) = turn.instance.stored() else {
        return;
    };
    if let Err(error) = store.container.run(locked.delete()).await {
        tracing::debug!(%error, "a pending instance was not deleted");
    }
}

async fn unlock_with(store: &Store, instance: &Stored<Instance>, attempts: BTreeMap<String, u32>) {
    let patch = unlock_patch(attempts, store.now());
    if let Err(error) = store.container.run(patch.at(instance)).await {
        tracing::debug!(%error, "a lock was not released; it will expire");
    }
}
