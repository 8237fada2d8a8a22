//! Ends a provider: on request, with time to release its locks, or when its last handle is dropped.
//!
//! Correctness needs neither: locks expire, and other runtimes deliver committed messages.
//! Releasing saves them the wait.

use std::time::Duration;

use crate::provider::CosmosDBProvider;
use crate::services::Services;
use crate::{activities, turn};

impl CosmosDBProvider {
    /// Ends the background work of this provider and all its clones within `grace`: releases locks,
    /// delivers committed messages, leaves the membership. Call it after the runtime has been shut
    /// down:
    ///
    /// ```no_run
    /// # use std::{sync::Arc, time::Duration};
    /// # use cdb_provider::CosmosDBProvider;
    /// # async fn end(runtime: Arc<duroxide::runtime::Runtime>, provider: CosmosDBProvider) {
    /// runtime.shutdown(Some(20_000)).await;
    /// provider.shutdown(Duration::from_secs(5)).await;
    /// # }
    /// ```
    ///
    /// Turns and activities that the runtime broke off are released without counting the attempt,
    /// and other runtimes find them at once. Work that is not finished within `grace` is left to
    /// other runtimes: they find undelivered messages after `reconciler_age_threshold`, and locks
    /// when they expire. The same holds for a process that ends without this call.
    ///
    /// Clients may continue to use the provider; it polls for no more work.
    pub async fn shutdown(&self, grace: Duration) {
        let services = &self.services;
        services.tasks.close();
        services.queues.close();
        let release = async {
            futures::join!(release_locks(services), self.leave());
            services.tasks.finished().await;
        };
        if tokio::time::timeout(grace, release).await.is_err() {
            tracing::warn!(
                ?grace,
                "the shutdown timed out; other runtimes take over the rest"
            );
        }
        services.tasks.stop();
        services.tasks.finished().await;
    }
}

/// Releases every lock that this process holds.
async fn release_locks(services: &Services) {
    release_unused(services).await;
    futures::join!(
        turn::release_running(services),
        activities::release_running(services)
    );
    // The last commits may have taken locks for what comes next.
    release_unused(services).await;
    // Released last, because another runtime cannot use a session while its activities are locked.
    services.queues.sessions.release(services.container()).await;
}

async fn release_unused(services: &Services) {
    futures::join!(
        turn::release_unused(services, Duration::ZERO),
        activities::release_unused(services, Duration::ZERO)
    );
}
