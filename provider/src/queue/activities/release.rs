//! Releases locks of activities.

use std::time::Duration;

use cdb_model::{Document, Stored};

use super::capability::ActivityKey;
use super::known::Activities;
use super::lock::unlock_until;
use crate::queue::Services;
use crate::queue::local_queue::Shared;
use crate::queue::release::Locked;
use crate::stored::documents::WorkerItem;

/// An unlocked activity; `None` if the lock was lost.
type Unlocked = cdb_client::Result<Option<Stored<WorkerItem>>>;

impl Locked for Activities {
    type Released = Unlocked;

    async fn release_prelock(services: &Services, item: Stored<WorkerItem>) -> Unlocked {
        let store = &services.store;
        let unlocked = unlock_until(store, item, store.now(), false).await;
        unlocked.map(Some)
    }

    async fn release_taken(services: &Services, key: &ActivityKey, token: &str) -> Unlocked {
        let latest = services.container().latest_committed();
        let stored = latest.read(key).await?;
        match stored.filter(|stored| stored.document.lock_token.as_deref() == Some(token)) {
            Some(stored) => Self::release_prelock(services, stored).await,
            None => Ok(None),
        }
    }

    async fn release_running(services: &Services, running: Shared<Self>) {
        let mut lock = running.lock().await;
        while let Some(ended) = lock.acknowledging.clone().filter(|it| !it.is_cancelled()) {
            drop(lock);
            ended.cancelled().await;
            lock = running.lock().await;
        }
        if lock.holds(services.store.now()) {
            let key = lock.item.document.key();
            let released = Self::release_taken(services, &key, &lock.token).await;
            services.activities().finish(&mut lock);
            Self::note_released(services, released);
        }
    }

    /// Offers the activity to the next worker that fetches.
    fn note_released(services: &Services, released: Unlocked) {
        match released {
            Ok(Some(item)) => services.activities().note_free(item, Duration::ZERO),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "a lock was not released; it will expire"),
        }
    }
}

/// Releases an activity that a failed member has locked. The attempt counts, as after an expiry.
pub(crate) async fn take_over(services: &Services, locked: Stored<WorkerItem>) {
    let free = unlock_until(&services.store, locked, services.store.now(), true).await;
    Activities::note_released(services, free.map(Some));
}
