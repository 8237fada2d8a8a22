//! Ends a provider: on request, with time to release its locks, or when its last handle is dropped.
//!
//! Correctness needs neither: locks expire, and other runtimes deliver committed messages.
//! Releasing saves them the wait.

use std::time::Duration;

use crate::queue::Services;
use crate::queue::activities::Activities;
use crate::queue::instances::Instances;
use crate::queue::release;
use crate::timing::RELEASE_TIMEOUT;

/// Releases locks, delivers committed messages and leaves the membership, within `grace`.
pub(crate) async fn shut_down(services: &Services, grace: Duration) {
    services.store.tasks.close();
    services.queues.close();
    let release = async {
        futures::join!(release_locks(services), services.queues.leave());
        services.store.tasks.finished().await;
    };
    if tokio::time::timeout(grace, release).await.is_err() {
        tracing::warn!(
            ?grace,
            "the shutdown timed out; other runtimes take over the rest"
        );
    }
    services.store.tasks.stop();
    services.store.tasks.finished().await;
}

/// Releases every lock that this process holds.
async fn release_locks(services: &Services) {
    release_unused(services).await;
    futures::join!(
        release::release_running::<Instances>(services),
        release::release_running::<Activities>(services)
    );
    // The last commits may have taken locks for what comes next.
    release_unused(services).await;
    // Released last, because another runtime cannot use a session while its activities are locked.
    services.queues.sessions.release().await;
}

async fn release_unused(services: &Services) {
    futures::join!(
        release::release_unused::<Instances>(services, Duration::ZERO),
        release::release_unused::<Activities>(services, Duration::ZERO)
    );
}

/// Ends the background tasks of a provider when its last handle is dropped.
pub(crate) struct DropGuard {
    services: Services,
    /// Handles may be dropped outside of the Tokio runtime.
    runtime: tokio::runtime::Handle,
}

impl DropGuard {
    /// Keeps a handle of the current Tokio runtime.
    pub(crate) fn new(services: Services) -> Self {
        Self {
            services,
            runtime: tokio::runtime::Handle::current(),
        }
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        if self.services.store.tasks.is_stopped() {
            return;
        }
        self.services.store.tasks.stop();
        let services = self.services.clone();
        // If the Tokio runtime has ended, nothing runs, and the locks expire.
        self.runtime.spawn(async move {
            let release = async {
                futures::join!(
                    release::release_prelocks::<Instances>(&services, Duration::ZERO),
                    release::release_prelocks::<Activities>(&services, Duration::ZERO),
                    services.queues.leave()
                );
            };
            if tokio::time::timeout(RELEASE_TIMEOUT, release)
                .await
                .is_err()
            {
                tracing::debug!("locks of a dropped provider were not released; they will expire");
            }
        });
    }
}
