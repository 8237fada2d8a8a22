//! Locks of activities given back when the provider ends, so that others need not wait until they end by themselves.

use futures::StreamExt as _;
use futures::stream;

use super::ahead::unlock;
use super::fetch::read;
use crate::documents::WorkerItem;
use crate::provider::Inner;

/// How many locks are given back at the same time.
const AT_ONCE: usize = 16;

/// Gives back the activities that no worker has begun to run.
pub(crate) async fn give_back_ahead(inner: &Inner) {
    let handed = std::iter::from_fn(|| {
        let candidate = inner.activities.take(|other| other.handed_at.is_some());
        candidate.map(|candidate| candidate.item)
    });
    let handed: Vec<_> = handed.collect();
    stream::iter(handed)
        .for_each_concurrent(AT_ONCE, |item| unlock(inner, item))
        .await;
}

/// Gives back all activities of this process: those too that their runtime has broken off, and whose fetch it has
/// dropped. One that is being ended at this moment is waited for.
pub(crate) async fn give_back_all(inner: &Inner) {
    give_back_ahead(inner).await;
    stream::iter(inner.work.held())
        .for_each_concurrent(AT_ONCE, |shared| async move {
            let mut lock = shared.lock().await;
            if lock.holds(inner.container.now()) {
                release_taken(inner, &lock.item.document).await;
                inner.work.remove(&mut lock);
            }
        })
        .await;
    stream::iter(inner.work.take_tried())
        .for_each_concurrent(AT_ONCE, |item| async move {
            release_taken(inner, &item).await;
        })
        .await;
}

/// Gives an activity back that is locked by the token of `item`, whatever its version is now.
async fn release_taken(inner: &Inner, item: &WorkerItem) {
    match read(inner, item).await {
        Ok(Some(stored)) if stored.document.lock_token == item.lock_token => {
            unlock(inner, stored).await;
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "a lock is left to end by itself"),
    }
}
