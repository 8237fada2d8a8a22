//! The state that all operations of a provider share.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_coordination::{LeaseProvider, Membership};

use super::ledger::Ledger;
use super::queues::Queues;
use crate::config::CosmosDBProviderConfig;
use crate::queue::activities::ActivityQueue;
use crate::queue::instances::InstanceQueue;
use crate::queue::intents::Delivery;
use crate::stored::Store;
use crate::stored::documents::Durable;

/// The requests that a background task sends at a time: to several physical partitions, or for
/// several items.
pub(crate) const CONCURRENCY: usize = 16;

/// The services of a provider. Clones share their state.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) store: Store,
    pub(crate) queues: Arc<Queues>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) ledger: Arc<Ledger>,
}

impl Services {
    pub(crate) fn new(
        store: Store,
        config: &CosmosDBProviderConfig,
        leases: Arc<dyn LeaseProvider>,
        membership: Option<Arc<Membership>>,
    ) -> Self {
        Self {
            queues: Arc::new(Queues::new(&store, config, leases, membership)),
            store,
            delivery: Arc::new(Delivery::new(config)),
            ledger: Arc::default(),
        }
    }

    pub(crate) fn container(&self) -> &ContainerClient<Durable> {
        &self.store.container
    }

    pub(crate) fn instances(&self) -> &InstanceQueue {
        &self.queues.instances
    }

    pub(crate) fn activities(&self) -> &ActivityQueue {
        &self.queues.activities
    }

    /// Returns whether a delivery to an instance has to wait, because an earlier delivery failed or
    /// the physical partition of the instance does not answer.
    pub(crate) fn is_unreachable(&self, instance_id: &str) -> bool {
        self.delivery.backoff.is_waiting(instance_id)
            || self.container().backoff_of(&instance_id.into()).is_some()
    }

    /// Runs an attempt at an item of this instance, charged to it.
    ///
    /// # Errors
    /// Fails with its backoff if the physical partition does not answer.
    pub(crate) async fn attempt<T>(
        &self,
        instance_id: &str,
        attempt: impl Future<Output = T>,
    ) -> Result<T, Duration> {
        let attempt = self.ledger.charge(instance_id, attempt);
        let partition = instance_id.into();
        self.container().while_answering(&partition, attempt).await
    }

    /// Runs a task in the background until the provider stops.
    pub(crate) fn spawn<F, W>(&self, work: W)
    where
        F: Future<Output = ()> + Send + 'static,
        W: FnOnce(Self) -> F,
    {
        self.store.tasks.spawn(work(self.clone()));
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").finish_non_exhaustive()
    }
}
