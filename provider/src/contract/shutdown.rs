//! Ends a provider.

use std::time::Duration;

use duroxide::providers::ProviderError;

use crate::error::InOperation as _;
use crate::operate::shutdown::shut_down;
use crate::provider::CosmosDBProvider;

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
        shut_down(&self.services, grace).await;
    }

    /// Leaves the membership, so that other members serve this runtime's slots at once instead of
    /// after the failure timeout. Afterwards this provider polls for no work.
    /// [`shutdown`](Self::shutdown) also leaves. Dropping the last clone leaves in the background,
    /// which needs a running Tokio runtime.
    pub async fn leave(&self) {
        self.services.queues.leave().await;
    }

    /// Deletes the container with everything in it. For tests.
    ///
    /// # Errors
    /// Fails when the service refuses. A missing container is not an error.
    pub async fn cleanup(&self) -> Result<(), ProviderError> {
        self.services.store.tasks.stop();
        self.leave().await;
        match self.services.container().delete_container().await {
            Err(error) if error.is_not_found() => Ok(()),
            deleted => deleted.in_operation("cleanup"),
        }
    }
}
