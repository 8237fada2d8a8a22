//! What the operations of a provider share: its container, its queues, and its tasks.

use std::future::Future;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_coordination::{LeaseProvider, Membership, MembershipView};
use cdb_model::Timestamp;
use duroxide::providers::WorkItem;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::background::Background;
use crate::config::CosmosDBProviderConfig;
use crate::corrupt_documents::CorruptDocuments;
use crate::documents::{Durable, OrchestratorItem};
use crate::instances::InstanceQueue;
use crate::outbox::Outbox;
use crate::poll::{PollWindow, SlotScope};
use crate::session::Sessions;
use crate::spill::Limits;
use crate::telemetry::Telemetry;
use crate::work::ActivityQueue;

/// How many candidates a poll fetches per dispatcher, so that one poll feeds all of them for a while.
const PREFETCH_PER_DISPATCHER: u32 = 4;
/// The fewest candidates a poll fetches: enough that runtimes which find the same do not all want the same, and to look
/// past instances that are busy elsewhere.
const MIN_PREFETCH: u32 = 64;
/// What the next polls ask for, by queue.
#[derive(Debug, Default)]
pub(crate) struct PollWindows {
    pub(crate) orchestrations: PollWindow,
    pub(crate) activities: PollWindow,
}

/// What all clones of a provider share.
pub(crate) struct Services {
    pub(crate) container: ContainerClient<Durable>,
    pub(crate) long_polling: bool,
    pub(crate) scope: SlotScope,
    pub(crate) instances: InstanceQueue,
    pub(crate) activities: ActivityQueue,
    pub(crate) sessions: Arc<Sessions>,
    /// When the container was last probed, and whether nothing was due.
    pub(crate) last_probe: Mutex<Option<(Instant, bool)>>,
    pub(crate) windows: PollWindows,
    pub(crate) corrupt_documents: Arc<CorruptDocuments>,
    /// How long messages are kept for an instance that nobody has started.
    pub(crate) unclaimed_age: Duration,
    pub(crate) outbox: Outbox,
    pub(crate) limits: Limits,
    /// How old chunks are that no commit refers to.
    pub(crate) spill_age: Duration,
    pub(crate) telemetry: Telemetry,
    /// How old an intent is that nobody has delivered.
    pub(crate) reconciler_age: Duration,
    /// Puts candidates into an order that is another one in every process.
    pub(crate) scatter: RandomState,
    pub(crate) orchestration_prefetch: u32,
    pub(crate) activity_prefetch: u32,
    last_enqueued: AtomicU64,
    myself: Weak<Self>,
    membership: Option<Arc<Membership>>,
    pub(crate) background: Background,
}

impl Services {
    /// The services of a provider on a container.
    pub(crate) fn new(
        container: ContainerClient<Durable>,
        config: &CosmosDBProviderConfig,
        leases: Arc<dyn LeaseProvider>,
        membership: Option<Arc<Membership>>,
    ) -> Arc<Self> {
        let prefetch = |dispatchers: u32| {
            dispatchers
                .saturating_mul(PREFETCH_PER_DISPATCHER)
                .max(MIN_PREFETCH)
        };
        let corrupt_documents = Arc::<CorruptDocuments>::default();
        Arc::new_cyclic(|myself| Self {
            instances: InstanceQueue::new(container.clone(), config),
            activities: ActivityQueue::new(container.clone(), config),
            container,
            long_polling: config.long_polling,
            scope: SlotScope::new(leases),
            membership,
            sessions: Arc::new(Sessions::new(corrupt_documents.clone())),
            last_probe: Mutex::default(),
            windows: PollWindows::default(),
            corrupt_documents,
            unclaimed_age: config.unclaimed_age,
            outbox: Outbox::default(),
            limits: Limits {
                value: config.max_value_bytes,
                turn: config.max_turn_bytes,
                history: config.max_history_bytes,
            },
            spill_age: config.orphan_age,
            telemetry: Telemetry::default(),
            reconciler_age: config.reconciler_age_threshold,
            scatter: RandomState::new(),
            orchestration_prefetch: prefetch(config.orch_concurrency),
            activity_prefetch: prefetch(config.worker_concurrency),
            last_enqueued: AtomicU64::new(0),
            myself: myself.clone(),
            background: Background::default(),
        })
    }

    /// What this runtime knows about the others that share the container; `None` without membership.
    pub(crate) fn members(&self) -> Option<MembershipView> {
        self.membership.as_ref().map(|membership| membership.view())
    }

    /// Leaves the members, if this is one.
    pub(crate) async fn leave(&self) {
        if let Some(membership) = &self.membership {
            membership.leave().await;
        }
    }

    /// How long a fetch may wait.
    pub(crate) fn poll_timeout(&self, poll_timeout: Duration) -> Duration {
        if self.long_polling {
            poll_timeout
        } else {
            Duration::ZERO
        }
    }

    /// A time for a new queue item: the service's, but never the same twice, so that items that one process writes
    /// within a millisecond keep their order.
    pub(crate) fn enqueue_time(&self) -> Timestamp {
        let now = self.container.now().as_millis();
        let next = |last: u64| Some(now.max(last + 1));
        // The closure never declines, so both arms hold the previous value.
        let last = self
            .last_enqueued
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .unwrap_or_else(|last| last);
        Timestamp::from_millis(now.max(last + 1))
    }

    /// A message as it is to be written: reserved, if dispatchers of this process will work on it.
    pub(crate) fn reserve_if_ours(
        &self,
        message: OrchestratorItem,
        item: &WorkItem,
        now: Timestamp,
    ) -> OrchestratorItem {
        let starts = matches!(item, WorkItem::StartOrchestration { .. });
        let stays = !self.background.is_closing();
        if stays
            && self.instances.has_dispatchers()
            && (starts || self.instances.is_home_of(&message.instance_id))
        {
            message.reserved(now)
        } else {
            message
        }
    }

    /// Runs something that nobody waits for, unless the provider is gone.
    pub(crate) fn spawn<F, W>(&self, work: W)
    where
        F: Future<Output = ()> + Send + 'static,
        W: FnOnce(Arc<Self>) -> F,
    {
        if let Some(services) = self.myself.upgrade() {
            self.background.spawn(work(services));
        }
    }
}
