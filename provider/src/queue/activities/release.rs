//! Releases locks of activities, so that other processes need not wait until they expire.

use std::time::Duration;

use cdb_model::{Document, Stored};
use futures::StreamExt as _;
use futures::stream;

use super::capability::ActivityKey;
use super::lock::unlock_until;
use crate::queue::Services;
use crate::stored::Store;
use crate::stored::documents::WorkerItem;

/// The number of concurrent releases.
const CONCURRENCY: usize = 16;

/// Releases prelocks that are at least `age` old, and locks that dropped fetches may have taken.
pub(crate) async fn release_unused(services: &Services, age: Duration) {
    release_prelocks(services, age).await;
    release_dropped(services).await;
}

/// Releases prelocks that are at least `age` old.
pub(crate) async fn release_prelocks(services: &Services, age: Duration) {
    stream::iter(services.activities().local().take_unused(age))
        .for_each_concurrent(CONCURRENCY, |(claim, item)| async move {
            let free = unlock(&services.store, *item).await;
            services.activities().local().released(&claim);
            note_free(services, free);
        })
        .await;
}

/// Releases locks that dropped fetches may have taken.
async fn release_dropped(services: &Services) {
    stream::iter(services.activities().local().take_dropped())
        .for_each_concurrent(CONCURRENCY, |(claim, token)| async move {
            let free = release_taken(services, &claim.key, Some(&token)).await;
            services.activities().local().released(&claim);
            note_free(services, free);
        })
        .await;
}

/// Releases the activities of this process that the runtime has broken off. Waits for an activity
/// that is being ended.
pub(crate) async fn release_running(services: &Services) {
    stream::iter(services.activities().local().all_running())
        .for_each_concurrent(CONCURRENCY, |shared| async move {
            let mut lock = shared.lock().await;
            if lock.holds(services.store.now()) {
                let item = &lock.item.document;
                let (key, token) = (item.key(), item.lock_token.clone());
                let free = release_taken(services, &key, token.as_deref()).await;
                services.activities().finish(&mut lock);
                note_free(services, free);
            }
        })
        .await;
}

/// Releases an activity that this token locks, whatever its version. Returns the released activity;
/// `None` when the lock is lost or cannot be released. Reads the latest commit, because the answer
/// to the lock may be lost.
async fn release_taken(
    services: &Services,
    key: &ActivityKey,
    token: Option<&str>,
) -> Option<Stored<WorkerItem>> {
    match services.container().latest_committed().read(key).await {
        Ok(Some(stored)) if stored.document.lock_token.as_deref() == token => {
            unlock(&services.store, stored).await
        }
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, "a lock was not released; it will expire");
            None
        }
    }
}

/// Releases an activity that a failed member has locked. The attempt counts, as after an expiry.
pub(crate) async fn take_over(services: &Services, locked: Stored<WorkerItem>) {
    match unlock_until(&services.store, locked, services.store.now(), true).await {
        Ok(item) => note_free(services, Some(item)),
        Err(error) => tracing::debug!(%error, "a lock was not released; it will expire"),
    }
}

/// Releases a lock. The attempt does not count, because no worker has run the activity.
async fn unlock(store: &Store, stored: Stored<WorkerItem>) -> Option<Stored<WorkerItem>> {
    let unlocked = unlock_until(store, stored, store.now(), false).await;
    unlocked
        .inspect_err(|error| tracing::debug!(%error, "a lock was not released; it will expire"))
        .ok()
}

/// Notes a released activity for the next worker that fetches.
fn note_free(services: &Services, free: Option<Stored<WorkerItem>>) {
    if let Some(item) = free {
        services.activities().note_free(item, Duration::ZERO);
    }
}
