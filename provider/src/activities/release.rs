//! Giving locks of activities back, so that others need not wait until they end by themselves.

use std::time::Duration;

use cdb_model::Stored;
use futures::StreamExt as _;
use futures::stream;

use super::ask::ActivityKey;
use super::lock::{lock_patch, read, unlocked};
use crate::documents::WorkerItem;
use crate::services::Services;
use crate::store::Store;

/// How many locks are given back at the same time.
const AT_ONCE: usize = 16;

/// How long an activity that was locked ahead waits for a worker before its lock is given back.
const UNWANTED_AFTER: Duration = Duration::from_secs(1);

/// Gives back the locks that no worker has asked for, and those that dropped fetches may have taken.
pub(crate) async fn give_back_unwanted(services: &Services) {
    give_back_ahead(services, UNWANTED_AFTER).await;
    give_back_dropped(services).await;
}

/// Gives back the activities that were locked at least `age` ago and that no worker has begun to run.
pub(crate) async fn give_back_ahead(services: &Services, age: Duration) {
    stream::iter(services.activities().local().take_unwanted(age))
        .for_each_concurrent(AT_ONCE, |(claim, item)| async move {
            let free = unlock(&services.store, *item).await;
            services.activities().local().released(&claim);
            note_free(services, free);
        })
        .await;
}

/// Gives back locks that dropped fetches may have taken.
async fn give_back_dropped(services: &Services) {
    stream::iter(services.activities().local().take_dropped())
        .for_each_concurrent(AT_ONCE, |(claim, token)| async move {
            let free = release_taken(services, &claim.key, Some(&token)).await;
            services.activities().local().released(&claim);
            note_free(services, free);
        })
        .await;
}

/// Gives back all activities of this process: those too that their runtime has broken off, and whose fetch it has
/// dropped. One that is being ended at this moment is waited for.
pub(crate) async fn give_back_all(services: &Services) {
    give_back_ahead(services, Duration::ZERO).await;
    stream::iter(services.activities().local().all_running())
        .for_each_concurrent(AT_ONCE, |shared| async move {
            let mut lock = shared.lock().await;
            if lock.holds(services.store.now()) {
                let item = &lock.item.document;
                let (key, token) = (ActivityKey::of(item), item.lock_token.clone());
                let free = release_taken(services, &key, token.as_deref()).await;
                services.activities().finish(&mut lock);
                note_free(services, free);
            }
        })
        .await;
    give_back_dropped(services).await;
}

/// Gives an activity back that is locked by this token, whatever its version is now. Returns it as it is then.
async fn release_taken(
    services: &Services,
    key: &ActivityKey,
    token: Option<&str>,
) -> Option<Stored<WorkerItem>> {
    match read(services.container(), key).await {
        Ok(Some(stored)) if stored.document.lock_token.as_deref() == token => {
            unlock(&services.store, stored).await
        }
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, "a lock is left to end by itself");
            None
        }
    }
}

/// Gives a lock back. No worker has run the activity, so the attempt does not count.
async fn unlock(store: &Store, mut stored: Stored<WorkerItem>) -> Option<Stored<WorkerItem>> {
    let free = unlocked(stored.document.clone(), store.now(), false);
    let patch = lock_patch(&free);
    match store.container.patch_stored(&stored, &patch).await {
        Ok(written) => {
            stored.etag = written.etag;
            stored.document = free;
            Some(stored)
        }
        Err(error) => {
            tracing::debug!(%error, "a lock is left to end by itself");
            None
        }
    }
}

/// An activity that was given back is for the next worker that asks.
fn note_free(services: &Services, free: Option<Stored<WorkerItem>>) {
    if let Some(item) = free {
        services.activities().free(item, Duration::ZERO);
    }
}
