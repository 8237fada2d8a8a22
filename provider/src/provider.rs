//! The provider: what it is made of, and how it is opened.

use std::fmt;
use std::future::Future;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use cdb_client::{
    BootstrapConfig, ContainerClient, CosmosClient, Credential, MasterKey, OnDifference,
};
use cdb_coordination::{InMemoryLeaseProvider, LeaseProvider, Membership, MembershipView};
use cdb_model::Timestamp;
use duroxide::providers::{ProviderError, WorkItem};

use crate::admin::purge::Purge;
use crate::background::Background;
use crate::config::CosmosDBProviderConfig;
use crate::damage::Damage;
use crate::documents::{Durable, Member, OrchestratorItem};
use crate::error::InOperation;
use crate::outbox::{self, Outbox};
use crate::retention;
use crate::schema;
use crate::session::Sessions;
use crate::shutdown::Owner;
use crate::spill::Limits;
use crate::telemetry::Telemetry;
use crate::turn::InstanceQueue;
use crate::wait::{Depth, Share, Watch};
use crate::work::ActivityQueue;

/// How many candidates a poll fetches per dispatcher, so that one poll feeds all of them for a while.
const PREFETCH_PER_DISPATCHER: u32 = 4;
/// The fewest candidates a poll fetches: enough that runtimes which find the same do not all want the same, and to look
/// past instances that are busy elsewhere.
const MIN_PREFETCH: u32 = 64;
/// The operation that errors of opening name.
const OPEN: &str = "new";

/// How deep polls look, by queue.
#[derive(Debug, Default)]
pub(crate) struct Depths {
    pub(crate) orchestrations: Depth,
    pub(crate) activities: Depth,
}

/// duroxide's storage on Azure Cosmos DB. Cheap to clone; all clones share one state, and what runs in the background ends
/// with the last of them, or with [`shutdown`](Self::shutdown).
///
/// ```
/// use std::time::Duration;
/// use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let emulator = cdb_emulator::Emulator::start().await?; // in place of an account
/// let config = CosmosDBProviderConfig::builder(emulator.endpoint())
///     .key(emulator.key())
///     .retention(Duration::from_secs(30 * 24 * 3600))
///     .build()?;
/// let store = CosmosDBProvider::new_with_config(config).await?;
/// assert_eq!(store.container().name(), "duroxide");
/// store.cleanup().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CosmosDBProvider {
    pub(crate) inner: Arc<Inner>,
    _owner: Arc<Owner>,
}

/// What all clones share.
pub(crate) struct Inner {
    pub(crate) container: ContainerClient<Durable>,
    pub(crate) long_polling: bool,
    pub(crate) share: Share,
    pub(crate) instances: InstanceQueue,
    pub(crate) activities: ActivityQueue,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) watch: Watch,
    /// How deep the polls of both queues look.
    pub(crate) depths: Depths,
    pub(crate) damage: Arc<Damage>,
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
    myself: Weak<Inner>,
    membership: Option<Arc<Membership>>,
    pub(crate) background: Background,
}

impl CosmosDBProvider {
    /// Opens the container `duroxide` of a database with default settings, creating what does not exist.
    ///
    /// # Errors
    /// When endpoint or key are malformed, nothing can be reached, or the container has another partition key.
    pub async fn new(endpoint: &str, key: &str, database: &str) -> Result<Self, ProviderError> {
        Self::new_with_config(CosmosDBProviderConfig {
            endpoint: endpoint.to_owned(),
            key: key.to_owned(),
            database: database.to_owned(),
            ..Default::default()
        })
        .await
    }

    /// Like [`CosmosDBProvider::new`], with a container of another name.
    ///
    /// # Errors
    /// As [`CosmosDBProvider::new`].
    pub async fn new_with_container(
        endpoint: &str,
        key: &str,
        database: &str,
        container: &str,
    ) -> Result<Self, ProviderError> {
        Self::new_with_config(CosmosDBProviderConfig {
            endpoint: endpoint.to_owned(),
            key: key.to_owned(),
            database: database.to_owned(),
            container: container.to_owned(),
            ..Default::default()
        })
        .await
    }

    /// Opens a container with settings of your own.
    ///
    /// # Errors
    /// As [`CosmosDBProvider::new`].
    pub async fn new_with_config(config: CosmosDBProviderConfig) -> Result<Self, ProviderError> {
        let mut key = MasterKey::new(&config.key).in_operation(OPEN)?;
        if let Some(secondary) = &config.secondary_key {
            key = key.with_secondary(secondary).in_operation(OPEN)?;
        }
        Self::new_with_credential(config, key).await
    }

    /// Opens a container as somebody else than the holder of the account's key: an identity of Entra ID
    /// (`cdb_client::EntraId`, feature `entra`), or keys that are replaced while the program runs. The keys of `config` are
    /// not used.
    ///
    /// Identities of Entra ID can create neither database nor container; what exists is opened, and for what is missing
    /// the error says what an administrator has to create.
    ///
    /// # Errors
    /// As [`CosmosDBProvider::new`].
    pub async fn new_with_credential(
        config: CosmosDBProviderConfig,
        credential: impl Credential,
    ) -> Result<Self, ProviderError> {
        config.validate()?;
        let client = CosmosClient::builder(&config.endpoint)
            .credential(credential)
            .accept_invalid_certificates_on_loopback(config.accept_invalid_certificates_on_loopback)
            .build()
            .in_operation(OPEN)?;
        let container = client
            .database(&config.database)
            .bootstrap::<Durable>(
                &config.container,
                BootstrapConfig::from(config.bootstrap).with_on_difference(OnDifference::Extend),
            )
            .await
            .in_operation(OPEN)?;
        Self::on(container, &config).await
    }

    /// Opens a container through a client of your own: one with other settings, or the view of a container that also holds
    /// documents of your own types. Neither creates the container nor compares its indexing policy; that is
    /// [`bootstrap`](cdb_client::DatabaseClient::bootstrap). Connection and bootstrap of `config` are not used.
    ///
    /// The first opening writes the schema and the gate that keeps runtimes of `duroxide-cdb` out.
    ///
    /// # Errors
    /// When a setting of `config` cannot work, see [`validate`](CosmosDBProviderConfig::validate); when a newer version
    /// wrote the container; when the container does not exist or cannot be reached.
    pub async fn on(
        container: ContainerClient<Durable>,
        config: &CosmosDBProviderConfig,
    ) -> Result<Self, ProviderError> {
        let Some(membership) = config.membership.clone() else {
            let leases = Arc::new(InMemoryLeaseProvider::all());
            return Self::with_leases(container, config, leases).await;
        };
        config.validate()?;
        schema::admit(&container).await.in_operation(OPEN)?;
        let membership = Membership::start::<Member, _>(container.clone(), membership);
        let membership = Arc::new(membership);
        let opened = Self::open(container, config, membership.clone(), Some(membership));
        Ok(opened.in_background(config))
    }

    /// Like [`CosmosDBProvider::on`], for one of several runtimes that share the dispatch slots by a rule of your own.
    /// `config.membership` is not used.
    ///
    /// # Errors
    /// As [`CosmosDBProvider::on`].
    pub async fn with_leases(
        container: ContainerClient<Durable>,
        config: &CosmosDBProviderConfig,
        leases: Arc<dyn LeaseProvider>,
    ) -> Result<Self, ProviderError> {
        config.validate()?;
        schema::admit(&container).await.in_operation(OPEN)?;
        Ok(Self::open(container, config, leases, None).in_background(config))
    }

    /// Sends nothing and starts nothing.
    pub(crate) fn open(
        container: ContainerClient<Durable>,
        config: &CosmosDBProviderConfig,
        leases: Arc<dyn LeaseProvider>,
        membership: Option<Arc<Membership>>,
    ) -> Self {
        let prefetch = |dispatchers: u32| {
            dispatchers
                .saturating_mul(PREFETCH_PER_DISPATCHER)
                .max(MIN_PREFETCH)
        };
        let damage = Arc::<Damage>::default();
        let inner = Arc::new_cyclic(|myself| Inner {
            instances: InstanceQueue::new(container.clone(), config),
            activities: ActivityQueue::new(container.clone(), config),
            container,
            long_polling: config.long_polling,
            share: Share::new(leases),
            membership,
            sessions: Arc::new(Sessions::new(damage.clone())),
            watch: Watch::default(),
            depths: Depths::default(),
            damage,
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
        });
        Self {
            _owner: Arc::new(Owner::new(inner.clone())),
            inner,
        }
    }

    /// Starts the retention and the delivery of what other runtimes left undelivered.
    fn in_background(self, config: &CosmosDBProviderConfig) -> Self {
        let background = &self.inner.background;
        if let Some(keep) = config.retention {
            let myself = Arc::downgrade(&self.inner);
            background.spawn(retention::run(myself, keep, background.closing()));
        }
        background.spawn(outbox::reconcile(
            Arc::downgrade(&self.inner),
            config.reconciler_interval,
            config.delivery_retry,
            background.closing(),
        ));
        self
    }

    /// The container, for documents of your own and for tools.
    pub fn container(&self) -> &ContainerClient<Durable> {
        &self.inner.container
    }

    /// What this runtime knows about those that share the container; `None` without `membership` in the configuration.
    pub fn members(&self) -> Option<MembershipView> {
        self.inner
            .membership
            .as_ref()
            .map(|membership| membership.view())
    }

    /// Leaves the members, so that the others serve this runtime's slots at once instead of finding out by its silence.
    /// After that this provider looks for no work of others any more. Part of [`shutdown`](Self::shutdown); the last
    /// clone that is dropped leaves in the background, which needs a Tokio runtime that goes on.
    pub async fn leave(&self) {
        self.inner.leave().await;
    }

    /// Instances that ended at least `keep` ago, with their descendants, to be deleted slice by slice.
    ///
    /// Like [`retention`](CosmosDBProviderConfig::retention), but now and under your eyes.
    pub fn purge_ended(&self, keep: Duration) -> Purge {
        let container = self.inner.container.clone();
        let before = container.now() - keep;
        Purge::new(container, before)
    }

    /// Deletes the container with everything in it. For tests.
    ///
    /// # Errors
    /// When the service refuses; a container that is gone already is no error.
    pub async fn cleanup(&self) -> Result<(), ProviderError> {
        self.inner.background.stop();
        self.leave().await;
        match self.inner.container.delete_container().await {
            Err(error) if error.is_not_found() => Ok(()),
            deleted => deleted.in_operation("cleanup"),
        }
    }
}

impl fmt::Debug for CosmosDBProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CosmosDBProvider")
            .field("container", &self.inner.container)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Leaves the members, if this is one.
    pub(crate) async fn leave(&self) {
        if let Some(membership) = &self.membership {
            membership.leave().await;
        }
    }

    /// How long a fetch may wait.
    pub(crate) fn patience(&self, poll_timeout: Duration) -> Duration {
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
        if let Some(inner) = self.myself.upgrade() {
            self.background.spawn(work(inner));
        }
    }
}
