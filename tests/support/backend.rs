//! The stores of the suites: an embedded emulator per test, or the account of `COSMOS_ENDPOINT` and
//! `COSMOS_KEY`. Each test has fresh containers, which are deleted when it ends.

#[path = "../../cdb-coordination/tests/coordination/backend/account_clock.rs"]
mod account_clock;
mod audit;
mod progress;
mod simulated;

#[cfg(doctest)]
mod docs;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::transport::{SimulatedTime, Transport};
use cdb_client::{ContainerClient, CosmosClient, MasterKey};
use cdb_emulator::{DataRole, Emulator, Settings};
use cdb_provider::documents::{Durable, HistorySegment, Instance, OrchestratorItem, Text};
use cdb_provider::model::container::Extends;
use cdb_provider::model::{Patch, Query};
use cdb_provider::payload::{Encryption, PayloadCodec};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, OnNondeterminism};
use duroxide::provider_validations::ProviderFactory;
use duroxide::providers::Provider;

pub use audit::{audit, audit_by_instance, audit_history, instance_id};
pub use progress::writes;

/// The key that gives access to the emulator's documents as stored, without types.
pub const IDENTITY: &str = "fixture";

/// The settings of a test's provider: the defaults, and the keys of `COSMOS_PAYLOAD_KEYS`.
pub fn settings() -> CosmosDBProviderConfig {
    CosmosDBProviderConfig {
        payload_codec: encryption(),
        ..CosmosDBProviderConfig::default()
    }
}

/// The keys of `COSMOS_PAYLOAD_KEYS`, with which the suites also run.
fn encryption() -> Option<Arc<dyn PayloadCodec>> {
    let keys = std::env::var("COSMOS_PAYLOAD_KEYS").ok()?;
    Some(Arc::new(
        Encryption::parse(&keys).expect("well-formed keys"),
    ))
}

/// A store for one test.
#[derive(Debug)]
pub struct Backend {
    emulator: Option<Arc<Emulator>>,
    config: CosmosDBProviderConfig,
    /// The network of a test whose clock is paused.
    time: Option<SimulatedTime>,
    /// Containers that validation functions created. The last one is current.
    fresh: Mutex<Vec<String>>,
}

impl Backend {
    /// A fresh container.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// A fresh container, with changed settings of the provider.
    pub async fn start_with(change: impl FnOnce(&mut CosmosDBProviderConfig)) -> Self {
        let Ok(account) = CosmosDBProviderConfig::from_env() else {
            return Self::on_emulator(emulator().await, None, change);
        };
        Self::new(None, account, None, change)
    }

    /// A fresh container for a test that pauses Tokio's clock. Time passes only while no request is
    /// under way, so the outcome does not depend on the speed of the machine. On an account, the
    /// clock is resumed, unless the account takes requests of any date.
    pub async fn start_simulated() -> Self {
        Self::start_simulated_with(|_| {}).await
    }

    /// Like [`start_simulated`](Self::start_simulated), with other settings of the provider.
    pub async fn start_simulated_with(change: impl FnOnce(&mut CosmosDBProviderConfig)) -> Self {
        let Ok(account) = CosmosDBProviderConfig::from_env() else {
            let time = SimulatedTime::new();
            let emulator = emulator_on(1).clock(time.clock()).start();
            let emulator = time.in_real_time(emulator).await;
            let emulator = emulator.expect("the emulator starts");
            return Self::on_emulator(emulator, Some(time), change);
        };
        let time = account_clock::simulated_or_resumed();
        Self::new(None, account, time, change)
    }

    /// Like [`start_simulated_with`](Self::start_simulated_with), for a test whose outcome depends on
    /// the clock. `None` on an account, on which time passes while requests are under way.
    pub async fn start_in_simulated_time(
        change: impl FnOnce(&mut CosmosDBProviderConfig),
    ) -> Option<Self> {
        let is_account = CosmosDBProviderConfig::from_env().is_ok();
        if is_account && !account_clock::may_be_simulated() {
            println!("skipped: time is simulated on the emulator only");
            return None;
        }
        Some(Self::start_simulated_with(change).await)
    }

    /// Like [`start_simulated`](Self::start_simulated), with this many physical partitions. `None`
    /// on an account, which decides for itself.
    pub async fn start_simulated_on(partitions: u32) -> Option<Self> {
        if CosmosDBProviderConfig::from_env().is_ok() {
            println!("skipped: only the emulator has as many physical partitions as a test wants");
            return None;
        }
        let time = SimulatedTime::new();
        let emulator = emulator_on(partitions).clock(time.clock()).start();
        let emulator = time.in_real_time(emulator).await;
        let emulator = emulator.expect("the emulator starts");
        Some(Self::on_emulator(emulator, Some(time), |_| {}))
    }

    fn on_emulator(
        emulator: Emulator,
        time: Option<SimulatedTime>,
        change: impl FnOnce(&mut CosmosDBProviderConfig),
    ) -> Self {
        let config = CosmosDBProviderConfig {
            endpoint: emulator.endpoint(),
            key: emulator.key().to_owned(),
            ..settings()
        };
        let emulator = Arc::new(emulator);
        progress::watch(&emulator);
        Self::new(Some(emulator), config, time, change)
    }

    fn new(
        emulator: Option<Arc<Emulator>>,
        mut config: CosmosDBProviderConfig,
        time: Option<SimulatedTime>,
        change: impl FnOnce(&mut CosmosDBProviderConfig),
    ) -> Self {
        config.container = format!("test-{}", uuid::Uuid::new_v4());
        config.reconciler_interval = Duration::from_millis(200);
        config.reconciler_age_threshold = Duration::from_millis(200);
        change(&mut config);
        Self {
            emulator,
            config,
            time,
            fresh: Mutex::default(),
        }
    }

    /// A provider on the container.
    ///
    /// # Panics
    /// When the container cannot be opened.
    pub async fn provider(&self) -> CosmosDBProvider {
        self.open(self.config.container.clone()).await
    }

    /// A fresh container that fails on demand, and a provider on it. `None` on an account, which
    /// cannot fail on demand.
    ///
    /// # Panics
    /// When the container cannot be opened.
    pub async fn failing(
        change: impl FnOnce(&mut CosmosDBProviderConfig),
    ) -> Option<(Self, CosmosDBProvider)> {
        let backend = Self::start_with(change).await;
        if backend.emulator.is_none() {
            println!("skipped: only the emulator fails on demand");
            backend.stop().await;
            return None;
        }
        let provider = backend.provider().await;
        Some((backend, provider))
    }

    /// Like [`provider`](Self::provider), with changed settings for this provider only.
    ///
    /// # Panics
    /// The same.
    pub async fn provider_with(
        &self,
        change: impl FnOnce(&mut CosmosDBProviderConfig),
    ) -> CosmosDBProvider {
        self.open_as::<Durable>(change).await.0
    }

    /// A provider with changed settings on a container that also holds documents of other types,
    /// and that container.
    ///
    /// # Panics
    /// When the container cannot be opened.
    pub async fn open_as<C: Extends<Durable>>(
        &self,
        change: impl FnOnce(&mut CosmosDBProviderConfig),
    ) -> (CosmosDBProvider, ContainerClient<C>) {
        let mut config = self.config.clone();
        change(&mut config);
        let opened = match &self.time {
            Some(time) => simulated::open(config, time, time.clone()).await,
            None => CosmosDBProvider::open(config).await,
        };
        opened.expect("the container opens")
    }

    /// A provider with changed settings that sends its requests through `transport`, made of the
    /// network of a simulated test; `None` on an account.
    ///
    /// # Panics
    /// When the container cannot be opened.
    pub async fn provider_through<T: Transport>(
        &self,
        change: impl FnOnce(&mut CosmosDBProviderConfig),
        transport: impl FnOnce(SimulatedTime) -> T,
    ) -> Option<CosmosDBProvider> {
        let time = self.time.as_ref()?;
        let mut config = self.config.clone();
        change(&mut config);
        let opened = simulated::open::<Durable>(config, time, transport(time.clone())).await;
        Some(opened.expect("the container opens").0)
    }

    /// The emulator, unless the test runs on an account.
    pub fn emulator(&self) -> Option<&Emulator> {
        self.emulator.as_deref()
    }

    async fn open(&self, container: String) -> CosmosDBProvider {
        self.provider_with(|config| config.container = container)
            .await
    }

    fn fresh(&self) -> MutexGuard<'_, Vec<String>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn last_container(&self) -> ContainerClient<Durable> {
        let name = self
            .fresh()
            .last()
            .cloned()
            .expect("a provider was created before");
        self.open(name).await.container().clone()
    }

    /// Deletes the container from an account. An emulator is dropped with its data.
    pub async fn stop(self) {
        if self.emulator.is_none() {
            let key = MasterKey::new(&self.config.key).expect("the account's key is one");
            let client = CosmosClient::builder(&self.config.endpoint).credential(key);
            let client = match &self.time {
                Some(time) => client.transport(time.clone()).clock_of(time),
                None => client,
            };
            let client = client.build().expect("the account's endpoint is one");
            let database = client.database(&self.config.database);
            let mut names = std::mem::take(&mut *self.fresh());
            names.push(self.config.container.clone());
            for name in names {
                // Without a provider, which would need the codec of the container. A container that
                // stays behind is not a failure of the test.
                let _litter = database
                    .container::<Durable>(&name)
                    .delete_container()
                    .await;
            }
        }
    }
}

async fn emulator() -> Emulator {
    emulator_on(1).start().await.expect("the emulator starts")
}

fn emulator_on(partitions: u32) -> Settings {
    Emulator::builder()
        .identity(IDENTITY, DataRole::DataContributor)
        .physical_partitions(partitions)
}

#[async_trait]
impl ProviderFactory for Backend {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let name = format!("test-{}", uuid::Uuid::new_v4());
        self.fresh().push(name.clone());
        // The validations expect what duroxide decides.
        let provider = self.provider_with(|config| {
            config.container = name;
            config.on_nondeterminism = OnNondeterminism::Fail;
        });
        Arc::new(provider.await)
    }

    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn short_poll_threshold(&self) -> Duration {
        // One round trip, independent of the machine's load.
        Duration::from_millis(400)
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let container = self.last_container().await;
        let segments = container
            .query(Query::<HistorySegment>::in_partition(instance))
            .all()
            .await
            .expect("the history is there");
        assert!(!segments.is_empty(), "{instance} has no history to corrupt");
        let garbage = Patch::<HistorySegment>::new().set(
            HistorySegment::EVENT_DATA,
            Text::Inline("not an event".to_owned()),
        );
        for segment in segments {
            container
                .run(garbage.at(&segment))
                .await
                .expect("the history can be patched");
        }
        // Writing history must give the instance a new version, because caches are checked by
        // version.
        let instance = container
            .query(Query::<Instance>::in_partition(instance))
            .first()
            .await
            .expect("the instance can be read");
        if let Some(instance) = instance {
            let same =
                Patch::<Instance>::new().set(Instance::UPDATED_AT, instance.document.updated_at);
            container
                .run(same.at(&instance))
                .await
                .expect("the instance can be patched");
        }
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        let container = self.last_container().await;
        let messages = container
            .query(Query::<OrchestratorItem>::in_partition(instance))
            .all()
            .await
            .expect("the queue can be read");
        let found = container
            .query(Query::<Instance>::in_partition(instance))
            .first()
            .await
            .expect("the instance can be read");
        let attempts = found
            .map(|stored| stored.document.attempts)
            .unwrap_or_default();
        messages
            .iter()
            .map(|message| {
                attempts
                    .get(message.id.as_str())
                    .copied()
                    .unwrap_or_default()
            })
            .max()
            .unwrap_or_default()
    }
}
