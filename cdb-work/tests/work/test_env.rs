//! A container with coordinators, and documents that are written together with reports.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::feed::FeedStart;
use cdb_client::retry::RetryConfig;
use cdb_client::transport::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use cdb_client::{Bootstrap, ContainerClient, CosmosClient, DatabaseClient};
use cdb_coordination::membership::{InMemoryLeaseProvider, LeaseProvider};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document, Patch};
use cdb_work::{ClaimedWork, NewWork, Partitions, Work, WorkConfig, WorkCoordinator, WorkReport};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::backend::Backend;
use crate::skewed::Skewed;

/// The effect of one message, under an id of its own, so a second effect is a second document.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "applied", id = "{partition}:applied:{unique}")]
pub(crate) struct Applied {
    #[document(partition_key)]
    pub(crate) partition: String,
    pub(crate) unique: String,
    pub(crate) stream: String,
    pub(crate) message_id: String,
}

/// How many messages of a stream were applied.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "tally", id = "{partition}:tally:{stream}")]
pub(crate) struct Tally {
    #[document(partition_key)]
    pub(crate) partition: String,
    pub(crate) stream: String,
    #[document(index)]
    pub(crate) last: u64,
    pub(crate) count: u64,
}

#[derive(Container, Clone, Debug)]
pub(crate) enum Shop {
    #[container(extends)]
    Work(Work),
    Applied(Applied),
    Tally(Tally),
}

pub(crate) struct TestEnv {
    backend: Backend,
    pub(crate) shop: ContainerClient<Shop>,
}

pub(crate) fn config() -> WorkConfig {
    let mut config = WorkConfig::default()
        .with_partitions(Partitions::new(4).unwrap())
        .with_lease(Duration::from_secs(2))
        .with_upkeep(Duration::from_millis(100))
        .with_longest_pause(Duration::from_millis(50))
        .with_sweep(Duration::from_millis(300));
    config.retry.first_delay = Duration::from_millis(20);
    config
}

/// The only partition of [`one_partition`].
pub(crate) const PARTITION: &str = "work-000";

/// One partition for all streams, so that a block would affect all of them.
pub(crate) fn one_partition() -> WorkConfig {
    config().with_partitions(Partitions::new(1).unwrap())
}

/// The state of a member's process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Process {
    Runs,
    Paused,
    Dead,
}

/// The network of a member. A paused or dead process sends nothing.
#[derive(Debug)]
pub(crate) struct Switched {
    pub(crate) network: SimulatedTime,
    pub(crate) process: watch::Receiver<Process>,
}

#[async_trait]
impl Transport for Switched {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let runs = |process: &Process| *process == Process::Runs;
        if self.process.clone().wait_for(runs).await.is_err() {
            std::future::pending::<()>().await;
        }
        self.network.send(request).await
    }
}

impl TestEnv {
    pub(crate) async fn start() -> Self {
        Self::start_on(1).await
    }

    /// `None` on an account on which time cannot be simulated.
    pub(crate) async fn start_in_simulated_time() -> Option<Self> {
        let env = Self::start().await;
        if env.time().is_none() {
            println!("skipped: time is simulated on the emulator only");
            return None;
        }
        Some(env)
    }

    /// Starts with a container of this many physical partitions.
    pub(crate) async fn start_on(physical: u32) -> Self {
        let backend = Backend::start(physical, Some(SimulatedTime::new())).await;
        let shop = Self::database(&backend)
            .bootstrap::<Shop>("work", Bootstrap::CreateIfMissing)
            .await
            .unwrap();
        Self { backend, shop }
    }

    /// The emulator, which injects faults and counts requests; `None` on an account.
    pub(crate) fn emulator(&self) -> Option<&Emulator> {
        self.backend.emulator.as_ref()
    }

    /// The simulated network; `None` on an account.
    pub(crate) fn time(&self) -> Option<&SimulatedTime> {
        self.backend.time.as_ref()
    }

    /// The container, through a client with this network.
    pub(crate) fn over<C: Container>(
        &self,
        network: impl Transport + 'static,
    ) -> ContainerClient<C> {
        let builder = self.backend.builder().transport(network);
        let client = builder.retry(Self::retry()).build().unwrap();
        client.database(&self.backend.database).container("work")
    }

    /// The container, through a client with this network and the default retries.
    pub(crate) fn with_default_retry<C: Container>(
        &self,
        network: impl Transport + 'static,
    ) -> ContainerClient<C> {
        let client = self.backend.builder().transport(network).build().unwrap();
        client.database(&self.backend.database).container("work")
    }

    /// A new client, as in another process, and the name of the database.
    pub(crate) fn client(&self) -> (CosmosClient, &str) {
        let client = self.backend.builder().build().unwrap();
        (client, &self.backend.database)
    }

    fn retry() -> RetryConfig {
        RetryConfig::default()
            .with_deadline(Duration::from_secs(2))
            .with_delays(Duration::from_millis(2), Duration::from_millis(50))
    }

    fn database(backend: &Backend) -> DatabaseClient {
        let client = backend.builder().retry(Self::retry()).build().unwrap();
        client.database(&backend.database)
    }

    /// Opens a coordinator with a clock that is ten seconds ahead or behind.
    pub(crate) async fn open_skewed(&self, config: WorkConfig, ahead: bool) -> WorkCoordinator {
        let network = Skewed::new(self.backend.time.clone(), ahead);
        let slots = Arc::new(InMemoryLeaseProvider::all());
        let work = WorkCoordinator::open(self.with_default_retry(network), slots, config);
        work.await.unwrap()
    }

    /// Opens a coordinator whose process the test can pause; `None` on an account.
    pub(crate) async fn open_switched(
        &self,
        config: WorkConfig,
    ) -> Option<(WorkCoordinator, watch::Sender<Process>)> {
        let (process, runs) = watch::channel(Process::Runs);
        let network = Switched {
            network: self.time()?.clone(),
            process: runs,
        };
        let slots = Arc::new(InMemoryLeaseProvider::all());
        let work = WorkCoordinator::open(self.over(network), slots, config).await;
        Some((work.unwrap(), process))
    }

    pub(crate) async fn open(&self, config: WorkConfig) -> WorkCoordinator {
        self.open_share(config, 0, 1).await
    }

    /// Opens a coordinator with a new client, as in another process.
    pub(crate) async fn open_share(
        &self,
        config: WorkConfig,
        index: u32,
        of: u32,
    ) -> WorkCoordinator {
        let slots = Arc::new(InMemoryLeaseProvider::share(index, of));
        self.open_with(config, slots).await
    }

    /// Opens a coordinator with these slots and a new client.
    pub(crate) async fn open_with(
        &self,
        config: WorkConfig,
        slots: Arc<dyn LeaseProvider>,
    ) -> WorkCoordinator {
        let container = Self::database(&self.backend).container("work");
        let work = WorkCoordinator::open(container, slots, config);
        work.await.unwrap()
    }

    /// A client of the container, as in another process.
    pub(crate) fn container<C: Container>(&self) -> ContainerClient<C> {
        Self::database(&self.backend).container("work")
    }

    /// Creates another container of the database.
    pub(crate) async fn other_container<C: Container>(&self, name: &str) -> ContainerClient<C> {
        let database = Self::database(&self.backend);
        let created = database.bootstrap(name, Bootstrap::CreateIfMissing);
        created.await.unwrap()
    }

    /// All effects, in the order of the commits.
    pub(crate) async fn applied(&self) -> Vec<Applied> {
        let mut feed = self.shop.change_feed(FeedStart::Beginning);
        let mut all = Vec::new();
        loop {
            let changes = feed.next_changes().await.unwrap();
            if changes.is_empty() {
                return all;
            }
            all.extend(
                changes
                    .into_iter()
                    .filter_map(|change| match change.document {
                        Shop::Applied(applied) => Some(applied),
                        Shop::Work(_) | Shop::Tally(_) => None,
                    }),
            );
        }
    }
}

pub(crate) fn message(stream: &str, number: usize) -> NewWork {
    NewWork::inbox(stream, number.to_string()).with_body("count", format!("{{\"n\":{number}}}"))
}

/// The report that completes a message, with its effect.
pub(crate) fn applied(claimed: ClaimedWork) -> WorkReport {
    let message = claimed.message().clone();
    let mut effects = claimed.effects::<Shop>();
    effects
        .add(
            Applied {
                partition: message.partition,
                unique: uuid::Uuid::new_v4().to_string(),
                stream: message.stream,
                message_id: message.message_id,
            }
            .create(),
        )
        .unwrap();
    claimed.done().with_effects(&effects).unwrap()
}

/// The same report, refused by the store unless the message follows the one applied before it.
pub(crate) fn applied_in_order(claimed: ClaimedWork) -> WorkReport {
    let number: u64 = claimed.message().message_id.parse().unwrap();
    let key = TallyKey::new(&*claimed.message().partition, &*claimed.message().stream);
    let patch = Patch::<Tally>::new()
        .set(Tally::LAST, number)
        .incr(Tally::COUNT, 1)
        .when(Tally::LAST.eq(number - 1));
    let mut effects = claimed.effects::<Shop>();
    effects.add(patch.at(&key)).unwrap();
    applied(claimed).with_effects(&effects).unwrap()
}

/// Claims the next message.
pub(crate) async fn next(work: &WorkCoordinator) -> ClaimedWork {
    let mut claimed = work.claim(1, Duration::from_secs(5)).await;
    claimed.pop().expect("a message is claimed")
}

pub(crate) async fn nothing(work: &WorkCoordinator) {
    let claimed = work.claim(1, Duration::from_millis(150)).await;
    assert!(claimed.is_empty(), "{claimed:?}");
}
