//! Releases locks of activities, so that other processes need not wait until they expire.

use std::time::Duration;

use cdb_model::{Document, Stored};
use futures::StreamExt as _;
use futures::stream;

use super::capability::ActivityKey;
use super::lock::unlock_until;
use crate::documents::WorkerItem;
use crate::services::Services;
use crate::store::Store;

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
            note_free(services, free.map(Some));
        })
        .await;
}

/// Releases locks that dropped fetches may have taken.
async fn release_dropped(services: &Services) {
    let queue = services.activities().local();
    let dropped = queue.with(|queue, _| queue.take_releasing());
    stream::iter(dropped)
        .for_each_concurrent(CONCURRENCY, |(claim, token)| async move {
            let free = release_taken(services, &claim.key, Some(&token)).await;
            queue.released(&claim);
            note_free(services, free);
        })
        .await;
}

/// Releases the activities of this process that the runtime has broken off. Waits for an activity
/// that is being ended.
pub(crate) async fn release_running(services: &Services) {
    let queue = services.activities().local();
    stream::iter(queue.with(|queue, _| queue.all_running()))
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
/// `None` when the lock is lost. Reads the latest commit, because the answer to the lock may be
/// lost.
async fn release_taken(
    services: &Services,
    key: &ActivityKey,
    token: Option<&str>,
) -> cdb_client::Result<Option<Stored<WorkerItem>>> {
    let stored = services.container().latest_committed().read(key).await?;
    match stored.filter(|stored| stored.document.lock_token.as_deref() == token) {
        Some(stored) => unlock(&services.store, stored).await.map(Some),
        None => Ok(None),
    }
}

/// Releases an activity that a failed member has locked. The attempt counts, as after an expiry.
pub(crate) async fn take_over(services: &Services, locked: Stored<WorkerItem>) {
    let free = unlock_until(&services.store, locked, services.store.now(), true).await;
    note_free(services, free.map(Some));
}

/// Releases a lock. The attempt does not count, because no worker has run the activity.
async fn unlock(
    store: &Store,
    stored: Stored<WorkerItem>,
) -> cdb_client::Result<Stored<WorkerItem>> {
    unlock_until(store, stored, store.now(), false).await
}

/// Notes a released activity for the next worker that fetches.
fn note_free(services: &Services, free: cdb_client::Result<Option<Stored<WorkerItem>>>) {
    match free {
        Ok(Some(item)) => services.activities().note_free(item, Duration::ZERO),
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "a lock was not released; it will expire"),
    }
}
