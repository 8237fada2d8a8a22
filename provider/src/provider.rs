//! The provider and its constructors.

use std::fmt;
use std::sync::Arc;

use cdb_client::database::{BootstrapConfig, OnDifference};
use cdb_client::{Bootstrap, ContainerClient};
use cdb_coordination::Membership;
use cdb_coordination::membership::{InMemoryLeaseProvider, LeaseProvider, MembershipView};
use cdb_model::Stored;
use cdb_model::container::Extends;
use duroxide::Event;
use duroxide::providers::ProviderError;
use tokio::time::Instant;

use crate::config::CosmosDBProviderConfig;
use crate::error::{InOperation, Result as Internal};
use crate::operate::shutdown::DropGuard;
use crate::operate::{Metrics, housekeeping, limits, retention, takeover};
use crate::queue::{Services, Telemetry};
use crate::stored::Store;
use crate::stored::documents::{
    Durable, Limits, Member, Rule, SCHEMA_PARTITION, Schema, SchemaKey,
};
use crate::stored::payload::{PayloadCodec, Payloads};
use crate::stored::schema::{self, Uses};

/// The operation's name in errors of the constructors.
const OPEN: &str = "new";

/// duroxide's storage on Azure Cosmos DB. Cheap to clone; all clones share one state. The
/// background tasks end with the last clone, or with [`shutdown`](Self::shutdown).
///
/// | to open | call |
/// |---|---|
/// | a container of orchestrations, with default settings | [`new`](Self::new), [`new_with_container`](Self::new_with_container) |
/// | one with other settings | [`new_with_config`](Self::new_with_config) |
/// | one that also holds documents of your own types | [`open`](Self::open) |
/// | one through a client that exists | [`on`](Self::on) |
/// | one to inspect or repair it, without background tasks | [`for_tools`](Self::for_tools) |
///
/// ```
/// use std::time::Duration;
/// use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let emulator = cdb_emulator::Emulator::start().await?; // in place of an account
/// let config = CosmosDBProviderConfig {
///     endpoint: emulator.endpoint(),
///     key: emulator.key().to_owned(),
///     retention: Some(Duration::from_secs(30 * 24 * 3600)),
///     ..Default::default()
/// };
/// let store = CosmosDBProvider::new_with_config(config).await?;
/// assert_eq!(store.container().name(), "duroxide");
/// store.cleanup().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CosmosDBProvider {
    pub(crate) services: Services,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) metrics: Arc<Metrics>,
    _drop_guard: Arc<DropGuard>,
}

impl CosmosDBProvider {
    /// Opens the container `duroxide` of a database with default settings. Creates what does not
    /// exist.
    ///
    /// # Errors
    /// Fails when endpoint or key are malformed, the account cannot be reached, or the container
    /// has another partition key.
    pub async fn new(endpoint: &str, key: &str, database: &str) -> Result<Self, ProviderError> {
        Self::new_with_container(endpoint, key, database, "duroxide").await
    }

    /// Opens a container of another name than [`CosmosDBProvider::new`].
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

    /// Opens a container with the settings of `config`.
    ///
    /// # Errors
    /// As [`CosmosDBProvider::new`].
    pub async fn new_with_config(config: CosmosDBProviderConfig) -> Result<Self, ProviderError> {
        let (provider, _) = Self::open::<Durable>(config).await?;
        Ok(provider)
    }

    /// Opens a container that also holds documents of other types: those of `C`, which extends
    /// [`Durable`]. Returns the provider and the container. Creates what does not exist, with the
    /// indexes of all document types.
    ///
    /// # Errors
    /// As [`CosmosDBProvider::new`].
    ///
    /// ```
    /// use cdb_provider::documents::Durable;
    /// use cdb_provider::model::{Container, Document};
    /// use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Document, Serialize, Deserialize)]
    /// #[document(type = "order", id = "{instance_id}:order")]
    /// struct Order {
    ///     #[document(partition_key)]
    ///     #[serde(rename = "instanceId")]
    ///     instance_id: String,
    /// }
    ///
    /// #[derive(Container)]
    /// enum Shop {
    ///     #[container(extends)]
    ///     Durable(Durable),
    ///     Order(Order),
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let emulator = cdb_emulator::Emulator::start().await?;
    /// # let account = format!("AccountEndpoint={};AccountKey={};", emulator.endpoint(), emulator.key());
    /// let config = CosmosDBProviderConfig::from_connection_string(&account)?;
    /// let (provider, shop) = CosmosDBProvider::open::<Shop>(config).await?;
    /// shop.run(Order { instance_id: "order-7".to_owned() }.upsert()).await?;
    /// assert_eq!(provider.container().name(), shop.name());
    /// # Ok(()) }
    /// ```
    pub async fn open<C: Extends<Durable>>(
        config: CosmosDBProviderConfig,
    ) -> Result<(Self, ContainerClient<C>), ProviderError> {
        config.validate()?;
        let client = config.client().in_operation(OPEN)?;
        let bootstrap = BootstrapConfig::from(config.bootstrap)
            .with_on_difference(OnDifference::Extend)
            .with_index_timeout(config.index_timeout);
        let container = client
            .database(&config.database)
            .bootstrap::<C>(&config.container, bootstrap)
            .await
            .in_operation(OPEN)?;
        if config.bootstrap == Bootstrap::Skip {
            container.check_account().await.in_operation(OPEN)?;
        }
        let provider = Self::on_checked(container.view(), &config).await?;
        Ok((provider, container))
    }

    /// Opens a container through an existing client, with settings that `config` lacks. The
    /// container may also hold documents of other types. This neither creates the container nor
    /// compares its indexing policy; [`bootstrap`](cdb_client::DatabaseClient::bootstrap) does. The
    /// connection and `bootstrap` of `config` are ignored.
    ///
    /// The first opening writes the schema and the gate that keeps runtimes of `duroxide-cdb` out.
    ///
    /// # Errors
    /// Fails when a setting of `config` cannot work, see
    /// [`validate`](CosmosDBProviderConfig::validate); when the account has several write regions;
    /// when a newer version wrote the container; when the container does not exist or cannot be
    /// reached.
    pub async fn on<C: Extends<Durable>>(
        container: ContainerClient<C>,
        config: &CosmosDBProviderConfig,
    ) -> Result<Self, ProviderError> {
        config.check_settings()?;
        container.check_account().await.in_operation(OPEN)?;
        Self::on_checked(container.view(), config).await
    }

    /// Opens a container of an account with one write region.
    async fn on_checked(
        container: ContainerClient<Durable>,
        config: &CosmosDBProviderConfig,
    ) -> Result<Self, ProviderError> {
        let codec = config.payload_codec.as_deref().map(PayloadCodec::name);
        let uses = schema::admit(&container, codec).await.in_operation(OPEN)?;
        let limits = if uses == Uses::Nothing {
            None
        } else {
            limits::rules::read(&container).await.in_operation(OPEN)?
        };
        let has_caps = |limits: &Stored<Limits>| limits.document.rules.iter().any(Rule::is_cap);
        if uses < Uses::Permits && limits.as_ref().is_some_and(has_caps) {
            // An earlier version has set them.
            let noted = schema::note(&container, Uses::Permits).await;
            noted.in_operation(OPEN)?;
        }
        let start = |own| Arc::new(Membership::start::<Member, _>(container.clone(), own));
        let own = config.membership.clone();
        let membership = own.filter(|_| config.leases.is_none()).map(start);
        let leases = match (&config.leases, &membership) {
            (Some(leases), _) => leases.clone(),
            (None, Some(membership)) => membership.clone(),
            (None, None) => Arc::new(InMemoryLeaseProvider::all()),
        };
        let incarnation = membership.as_ref().map(|own| own.incarnation().clone());
        let store = Store::new(container, config.store(), incarnation);
        let provider = Self::of(store, config, leases, membership);
        let queues = &provider.services.queues;
        queues.limits.checked(Instant::now());
        if let Some(limits) = limits {
            queues.apply_limits(&limits.document);
        }
        Ok(provider.in_background(config))
    }

    /// Opens a container for a tool that inspects or repairs it and runs no orchestrations. Starts
    /// no background task: retention and delivery are left to runtimes. Never writes the gate, so a
    /// runtime of `duroxide-cdb` can continue to use its container. Ignores `membership` and `leases` of
    /// `config`.
    ///
    /// Without the container's payload codec, or without a key of it, the tool works too: encoded
    /// payloads are returned as they are stored, `cdb:payload:…`. [`decode`](Self::decode) serves
    /// tools that read documents themselves. With another codec than the container's, or without
    /// it, new payloads are refused; a cancellation is not, and its reason is stored as it is.
    ///
    /// `schema` is what [`schema`](Self::schema) has read from the container:
    ///
    /// ```
    /// use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let emulator = cdb_emulator::Emulator::start().await?;
    /// # let store = CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
    /// # let container = store.container().clone();
    /// let schema = CosmosDBProvider::schema(&container).await?;
    /// let tool = CosmosDBProvider::for_tools(container, &CosmosDBProviderConfig::default(), schema.as_ref())?;
    /// # drop(tool); Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Fails when a setting of `config` cannot work, or `schema` has a newer version.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub fn for_tools(
        container: ContainerClient<Durable>,
        config: &CosmosDBProviderConfig,
        schema: Option<&Schema>,
    ) -> Result<Self, ProviderError> {
        config.check_settings()?;
        schema::check(container.name(), schema).in_operation("for_tools")?;
        let leases = Arc::new(InMemoryLeaseProvider::all());
        let codec = config.payload_codec.as_ref().map(|codec| codec.name());
        let write_refusal = schema::foreign_codec(container.name(), schema, codec);
        let mut store = Store::new(container, config.store(), None);
        store.payloads = store.payloads.lenient(write_refusal);
        Ok(Self::of(store, config, leases, None))
    }

    /// Reads the schema of a container, for [`for_tools`](Self::for_tools). `None` if no runtime has opened the container:
    /// it is new, or holds something else.
    ///
    /// # Errors
    /// Fails when the container does not exist or cannot be reached.
    pub async fn schema(
        container: &ContainerClient<Durable>,
    ) -> cdb_client::Result<Option<Schema>> {
        let key = SchemaKey::new(SCHEMA_PARTITION);
        let stored = container.read(&key).await?;
        Ok(stored.map(|stored| stored.document))
    }

    /// Creates the provider of a store.
    fn of(
        store: Store,
        config: &CosmosDBProviderConfig,
        leases: Arc<dyn LeaseProvider>,
        membership: Option<Arc<Membership>>,
    ) -> Self {
        let services = Services::new(store, config, leases, membership);
        Self {
            _drop_guard: Arc::new(DropGuard::new(services.clone())),
            services,
            telemetry: Arc::default(),
            metrics: Arc::default(),
        }
    }

    /// Starts the retention task, the takeover of failed members' locks, and the reconciler, which
    /// delivers what other runtimes left undelivered.
    fn in_background(self, config: &CosmosDBProviderConfig) -> Self {
        if let Some(keep) = config.retention {
            self.services
                .spawn(|services| retention::run(services, keep));
        }
        if let Some(membership) = &self.services.queues.membership {
            let failed = membership.failed();
            self.services
                .spawn(|services| takeover::run(services, failed));
        }
        self.services.spawn(limits::permits::run);
        let policy = config.delivery_retry;
        self.services
            .spawn(|services| housekeeping::run(services, policy));
        self
    }

    /// Returns the container, for documents of other types and for tools.
    pub fn container(&self) -> &ContainerClient<Durable> {
        self.services.container()
    }

    pub(crate) fn payloads(&self) -> &Payloads {
        &self.services.store.payloads
    }

    /// Decodes a history that was read for a client.
    pub(crate) fn decoded(&self, history: Internal<Vec<Event>>) -> Internal<Vec<Event>> {
        self.payloads().decode_history(history?)
    }

    /// Returns this runtime's view of the members that share the container; `None` without
    /// `membership`, or with `leases`, in the configuration.
    pub fn members(&self) -> Option<MembershipView> {
        let membership = self.services.queues.membership.as_ref();
        membership.map(|membership| membership.view())
    }
}

impl fmt::Debug for CosmosDBProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CosmosDBProvider")
            .field("container", &self.services.container())
            .finish_non_exhaustive()
    }
}
