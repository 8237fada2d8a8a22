//! Releases locks of this process, so that other processes need not wait until they expire: unused
//! prelocks, locks that dropped fetches may have taken, or all at shutdown.

use std::future::Future;
use std::time::Duration;

use futures::{StreamExt as _, stream};

use super::local_queue::Shared;
use super::poll::Polled;
use super::services::{CONCURRENCY, Services};

/// A queue whose items this process locks. A lock that cannot be released expires.
pub(crate) trait Locked: Polled {
    /// What a release tells of the item.
    type Released: Send;

    /// Releases a prelock that no dispatcher has used. The attempt does not count.
    fn release_prelock(
        services: &Services,
        lock: Self::Lock,
    ) -> impl Future<Output = Self::Released> + Send;

    /// Releases a lock that may have been taken with this token at an unknown version. Reads the
    /// latest commit, because the answer to the lock may be lost.
    fn release_taken(
        services: &Services,
        key: &Self::Key,
        token: &str,
    ) -> impl Future<Output = Self::Released> + Send;

    /// Releases an item that the runtime has broken off. Waits for an item that is being ended.
    fn release_running(
        services: &Services,
        running: Shared<Self>,
    ) -> impl Future<Output = ()> + Send;

    /// Notes a released item, once the local queue has it back.
    fn note_released(_services: &Services, _released: Self::Released) {}
}

/// Releases prelocks that are at least `age` old, and locks that dropped fetches may have taken.
pub(crate) async fn release_unused<W: Locked>(services: &Services, age: Duration) {
    release_prelocks::<W>(services, age).await;
    let dropped = W::queue(services).with(|queue, _| queue.take_releasing());
    stream::iter(dropped)
        .for_each_concurrent(CONCURRENCY, |(claim, token)| async move {
            let released = W::release_taken(services, &claim.key, &token).await;
            W::queue(services).released(&claim);
            W::note_released(services, released);
        })
        .await;
}

/// Releases prelocks that are at least `age` old.
pub(crate) async fn release_prelocks<W: Locked>(services: &Services, age: Duration) {
    stream::iter(W::queue(services).take_unused(age))
        .for_each_concurrent(CONCURRENCY, |(claim, lock)| async move {
            let released = W::release_prelock(services, *lock).await;
            W::queue(services).released(&claim);
            W::note_released(services, released);
        })
        .await;
}

/// Releases the items of this process that the runtime has broken off.
pub(crate) async fn release_running<W: Locked>(services: &Services) {
    let running = W::queue(services).with(|queue, _| queue.all_running());
    stream::iter(running)
        .for_each_concurrent(CONCURRENCY, |running| W::release_running(services, running))
        .await;
}
