//! The state that all operations of a provider share: the store, the local queues, the delivery.

use std::fmt;
use std::future::Future;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_coordination::Membership;
use cdb_coordination::membership::LeaseProvider;
use cdb_model::Timestamp;
use duroxide::providers::WorkItem;

use super::hand_over::Budget;
use super::ledger::Ledger;
use super::limits::KnownLimits;
use super::other_work::OtherWork;
use crate::config::CosmosDBProviderConfig;
use crate::queue::activities::ActivityQueue;
use crate::queue::instances::InstanceQueue;
use crate::queue::intents::Delivery;
use crate::queue::poll::{LastProbe, PolledQueue, Shares};
use crate::queue::session::Sessions;
use crate::stored::Store;
use crate::stored::documents::{Durable, Limits, OrchestratorItem};

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

/// The local queues of a provider.
pub(crate) struct Queues {
    pub(crate) instances: InstanceQueue,
    pub(crate) activities: ActivityQueue,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) shares: Shares,
    pub(crate) probe: LastProbe,
    pub(crate) limits: KnownLimits,
    pub(crate) hand_over: Budget,
    /// Orders candidates differently in each process.
    pub(crate) scatter: RandomState,
    pub(crate) other_work: OtherWork,
    long_polling: bool,
    /// The members that share the container, if there are any.
    pub(crate) membership: Option<Arc<Membership>>,
}

impl Queues {
    pub(crate) fn new(
        store: &Store,
        config: &CosmosDBProviderConfig,
        leases: Arc<dyn LeaseProvider>,
        membership: Option<Arc<Membership>>,
    ) -> Self {
        Self {
            instances: InstanceQueue::new(store.clone(), config),
            activities: ActivityQueue::new(store.clone(), config),
            sessions: Arc::new(Sessions::new(store.clone())),
            shares: Shares::new(leases),
            probe: LastProbe::default(),
            limits: KnownLimits::default(),
            hand_over: Budget::new(config.hand_over.clone()),
            scatter: RandomState::new(),
            other_work: OtherWork::default(),
            long_polling: config.long_polling,
            membership,
        }
    }

    /// Applies rules to the work of this process, unless it knows newer ones.
    pub(crate) fn apply_limits(&self, limits: &Limits) {
        self.limits.apply(&self.activities, &self.instances, limits);
    }

    /// Returns whether the takers of a queue will soon have no ready item.
    pub(crate) fn is_running_low(&self, queue: PolledQueue) -> bool {
        let (instances, activities) = (self.instances.local(), self.activities.local());
        match queue {
            PolledQueue::Orchestrations => instances.with(|queue, _| queue.is_running_low()),
            PolledQueue::Activities => activities.with(|queue, _| queue.is_running_low()),
            PolledQueue::Intents => true,
        }
    }

    /// Polls a queue soon, because only a poll can find the work that may have arrived. The
    /// reconciler takes intents at its own interval.
    pub(crate) fn poll_soon(&self, queue: PolledQueue) {
        match queue {
            PolledQueue::Orchestrations => self.instances.local().poll_soon(),
            PolledQueue::Activities => self.activities.local().poll_soon(),
            PolledQueue::Intents => {}
        }
    }

    /// Returns the longest wait of a fetch: zero unless long polling is on.
    pub(crate) fn poll_timeout(&self, requested: Duration) -> Duration {
        if self.long_polling {
            requested
        } else {
            Duration::ZERO
        }
    }

    /// Returns whether the runtime of this process fetches without long polls.
    pub(crate) fn is_legacy(&self) -> bool {
        !self.long_polling
    }

    /// Returns the message to write: reserved if a dispatcher of this process will handle it. Events
    /// keep their order.
    pub(crate) fn reserve_if_local(
        &self,
        message: OrchestratorItem,
        item: &WorkItem,
        now: Timestamp,
    ) -> OrchestratorItem {
        let instances = &self.instances;
        let starts = matches!(item, WorkItem::StartOrchestration { .. });
        let is_local = starts || instances.is_local(&message.instance_id);
        let is_local = is_local && instances.has_dispatchers();
        match item {
            WorkItem::QueueMessage { .. } | WorkItem::ExternalRaised { .. } => {
                instances.reservations().place(message, is_local, now)
            }
            _ if is_local => message.reserved(now),
            _ => message,
        }
    }

    /// Leaves the membership, if there is one.
    pub(crate) async fn leave(&self) {
        if let Some(membership) = &self.membership {
            membership.leave().await;
        }
    }

    /// Stops polls and prelocks from now on.
    pub(crate) fn close(&self) {
        self.instances.local().with(|queue, _| queue.close());
        self.activities.local().with(|queue, _| queue.close());
    }
}
