//! The end of a provider: asked for, with time to leave everything in order, or by the last handle that is dropped.
//!
//! Neither is needed for anything to be right: locks end by themselves, and what was committed is delivered by others.
//! It only saves them from waiting for that.

use std::time::Duration;

use crate::provider::CosmosDBProvider;
use crate::services::Services;
use crate::{activities, turn};

impl CosmosDBProvider {
    /// Ends what runs for this provider and all its clones, within `grace`: gives back locks, delivers what was committed,
    /// leaves the members. Call it when the runtime has been shut down:
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
    /// Turns and activities that the runtime had to break off are given back without counting the attempt, and other
    /// runtimes find them at once. What does not get done within `grace` is left to them: they find undelivered messages
    /// after `reconciler_age_threshold`, and locks when they end. The same holds for a process that ends without this call.
    ///
    /// Clients may go on using the provider; it looks for no work any more.
    pub async fn shutdown(&self, grace: Duration) {
        let services = &self.services;
        services.tasks.close();
        services.queues.close();
        let in_order = async {
            futures::join!(give_back(services), self.leave());
            services.tasks.finished().await;
        };
        if tokio::time::timeout(grace, in_order).await.is_err() {
            tracing::warn!(
                ?grace,
                "not everything was left in order; others will find it"
            );
        }
        services.tasks.stop();
        services.tasks.finished().await;
    }
}

/// Gives back every lock that this process holds.
async fn give_back(services: &Services) {
    let sessions = services.queues.sessions.release(services.container());
    futures::join!(
        turn::give_back_all(services),
        activities::give_back_all(services)
    );
    // Last, since a session is no use to others while its activities are locked.
    sessions.await;
}
