//! The local queues of this process, and the polls that fill them.

use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use cdb_coordination::{FailedMember, LeaseProvider, Membership, MembershipView};
use cdb_model::Timestamp;
use duroxide::providers::WorkItem;
use tokio::sync::broadcast;

use crate::config::CosmosDBProviderConfig;
use crate::queue::activities::ActivityQueue;
use crate::queue::instances::InstanceQueue;
use crate::queue::poll::{LastProbe, PolledQueue, Polls, Shares};
use crate::queue::session::Sessions;
use crate::stored::Store;
use crate::stored::documents::OrchestratorItem;

/// The candidates per dispatcher that are enough for a poll, so that one poll serves several fetches.
const PREFETCH_PER_DISPATCHER: u32 = 2;
/// The fewest candidates that are enough. Runtimes that find the same candidates can then begin with
/// different ones.
const MIN_PREFETCH: u32 = 32;

/// The local queues of a provider, and its polls.
pub(crate) struct Queues {
    pub(crate) instances: InstanceQueue,
    pub(crate) activities: ActivityQueue,
    pub(crate) sessions: Arc<Sessions>,
    instance_polls: Polls,
    activity_polls: Polls,
    pub(crate) shares: Shares,
    pub(crate) probe: LastProbe,
    /// Orders candidates differently in each process.
    pub(crate) scatter: RandomState,
    long_polling: bool,
    membership: Option<Arc<Membership>>,
}

impl Queues {
    pub(crate) fn new(
        store: &Store,
        config: &CosmosDBProviderConfig,
        leases: Arc<dyn LeaseProvider>,
        membership: Option<Arc<Membership>>,
    ) -> Self {
        let prefetch = |dispatchers: u32| {
            dispatchers
                .saturating_mul(PREFETCH_PER_DISPATCHER)
                .max(MIN_PREFETCH)
        };
        Self {
            instances: InstanceQueue::new(store.clone(), config),
            activities: ActivityQueue::new(store.clone(), config),
            sessions: Arc::new(Sessions::new(store.corrupt_documents.clone())),
            instance_polls: Polls::new(prefetch(config.orch_concurrency)),
            activity_polls: Polls::new(prefetch(config.worker_concurrency)),
            shares: Shares::new(leases),
            probe: LastProbe::default(),
            scatter: RandomState::new(),
            long_polling: config.long_polling,
            membership,
        }
    }

    /// Returns the polls of a queue.
    pub(crate) fn polls(&self, queue: PolledQueue) -> &Polls {
        match queue {
            PolledQueue::Orchestrations => &self.instance_polls,
            PolledQueue::Activities => &self.activity_polls,
        }
    }

    /// Returns whether the dispatchers of a queue will soon have no ready item.
    pub(crate) fn is_running_low(&self, queue: PolledQueue) -> bool {
        match queue {
            PolledQueue::Orchestrations => self.instances.local().is_running_low(),
            PolledQueue::Activities => self.activities.local().is_running_low(),
        }
    }

    /// Polls a queue soon, because only a poll can find the work that may have arrived.
    pub(crate) fn poll_soon(&self, queue: PolledQueue) {
        match queue {
            PolledQueue::Orchestrations => self.instances.local().poll_soon(),
            PolledQueue::Activities => self.activities.local().poll_soon(),
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

    /// Returns the message to write: reserved if a dispatcher of this process will handle it.
    pub(crate) fn reserve_if_local(
        &self,
        message: OrchestratorItem,
        item: &WorkItem,
        now: Timestamp,
    ) -> OrchestratorItem {
        let starts = matches!(item, WorkItem::StartOrchestration { .. });
        let is_local = starts || self.instances.is_local(&message.instance_id);
        if is_local && self.instances.has_dispatchers() {
            message.reserved(now)
        } else {
            message
        }
    }

    /// Returns this runtime's view of the members that share the container; `None` without
    /// membership.
    pub(crate) fn members(&self) -> Option<MembershipView> {
        self.membership.as_ref().map(|membership| membership.view())
    }

    /// Returns a receiver of the failed members that this process removes; `None` without
    /// membership.
    pub(crate) fn failed_members(&self) -> Option<broadcast::Receiver<FailedMember>> {
        self.membership
            .as_ref()
            .map(|membership| membership.failed())
    }

    /// Leaves the membership, if there is one.
    pub(crate) async fn leave(&self) {
        if let Some(membership) = &self.membership {
            membership.leave().await;
        }
    }

    /// Stops polls and prelocks from now on.
    pub(crate) fn close(&self) {
        self.instances.local().close();
        self.activities.local().close();
    }
}
