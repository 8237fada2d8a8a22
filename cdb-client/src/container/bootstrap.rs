//! Making sure that a container is there and is the one that the model describes, before anything is written to it.
//!
//! Many production identities may not create anything, or not even read metadata, so each of the three modes does only
//! what its name says, and a failure says which thing or which right is missing.

use std::fmt;
use std::time::Duration;

use cdb_model::{Container, ContainerDefinition};

use crate::client::DatabaseClient;
use crate::container::difference::{Difference, compare};
use crate::container::handle::ContainerClient;
use crate::error::{Error, ErrorKind, Result};
use crate::resource::check_name;
use crate::status::Status;

const READY_ATTEMPTS: u32 = 25;
const READY_DELAY: Duration = Duration::from_millis(200);

/// What [`DatabaseClient::bootstrap`] may do.
///
/// ```
/// use cdb_client::Bootstrap;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
/// # shop::with_client(async |client| {
///
/// let missing = client.database("shop").bootstrap::<Shop>("orders", Bootstrap::VerifyOnly).await;
/// assert!(missing.unwrap_err().is_not_found());
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Bootstrap {
    /// Creates what is missing, and checks what is there.
    #[default]
    CreateIfMissing,
    /// Creates nothing; checks what is there. Needs the right to read metadata.
    VerifyOnly,
    /// Sends nothing and trusts that all is well.
    Skip,
}

/// What to do about a live container whose indexing policy, expiry or unique keys differ from the model's. A container
/// with another partition key is always refused.
///
/// ```
/// use cdb_client::{Bootstrap, BootstrapConfig, ContainerChange, ErrorKind, OnDifference};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
/// # shop::with_client(async |client| {
///
/// let database = client.database("shop");
/// database.bootstrap::<Shop>("orders", Bootstrap::CreateIfMissing).await?;
/// // Somebody lets documents expire, which the model knows nothing of.
/// database.change_container("orders", &ContainerChange::default().with_default_ttl(Some(3600))).await?;
///
/// let strict = BootstrapConfig::from(Bootstrap::VerifyOnly).with_on_difference(OnDifference::Fail);
/// let error = database.bootstrap::<Shop>("orders", strict).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::ContainerMismatch);
/// assert!(error.to_string().contains("default time to live is 3600 s, the model's is off"));
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDifference {
    /// Says so with `tracing` and goes on: queries are answered all the same, some at a higher cost.
    #[default]
    Warn,
    /// Fails with [`ErrorKind::ContainerMismatch`].
    Fail,
    /// Adds the indexes and the expiry that the model needs and the container lacks, takes nothing away, and waits, for
    /// at most ten minutes, until the index is built. With [`Bootstrap::VerifyOnly`], or where the identity may not,
    /// fails with [`ErrorKind::ContainerMismatch`] and says what is to be added. Other differences are only told.
    Extend,
}

/// Request units per second of a new container. Has no effect on one that exists. Serverless accounts take none.
///
/// ```
/// use cdb_client::{Bootstrap, BootstrapConfig, Throughput};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
/// # shop::with_client(async |client| {
///
/// // Up to 4,000 RU/s by demand, and never less than a tenth of it.
/// let config = BootstrapConfig::from(Bootstrap::CreateIfMissing).with_throughput(Throughput::Autoscale(4_000));
/// let orders = client.database("shop").bootstrap::<Shop>("orders", config).await?;
/// # assert_eq!(orders.name(), "orders");
/// # assert_eq!(BootstrapConfig::default().throughput, Throughput::Unspecified); // a serverless account takes no other
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Throughput {
    /// What the account does by itself: its database's share, or the service's default. The choice for serverless.
    #[default]
    Unspecified,
    /// So many, always. Multiples of 100, at least 400.
    Manual(u32),
    /// Up to so many, by demand. Multiples of 1000.
    Autoscale(u32),
}

/// How to bootstrap a container.
///
/// ```
/// use cdb_client::{Bootstrap, BootstrapConfig, OnDifference, Throughput};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
/// # shop::with_client(async |client| {
///
/// let config = BootstrapConfig::from(Bootstrap::CreateIfMissing)
///     .with_throughput(Throughput::Autoscale(4_000))
///     .with_on_difference(OnDifference::Extend);
/// let orders = client.database("shop").bootstrap::<Shop>("orders", config).await?;
/// # drop(orders); Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BootstrapConfig {
    /// What may be done.
    pub mode: Bootstrap,
    /// What a new container gets.
    pub throughput: Throughput,
    /// What to do about differences.
    pub on_difference: OnDifference,
}

impl From<Bootstrap> for BootstrapConfig {
    fn from(mode: Bootstrap) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }
}

impl BootstrapConfig {
    /// Sets the throughput of a container that has to be created.
    pub fn with_throughput(mut self, throughput: Throughput) -> Self {
        self.throughput = throughput;
        self
    }

    /// Sets what to do about differences.
    pub fn with_on_difference(mut self, on_difference: OnDifference) -> Self {
        self.on_difference = on_difference;
        self
    }
}

impl DatabaseClient {
    /// A container whose documents are those of `C`, created or checked as `config` says. A bare [`Bootstrap`] mode is
    /// a config too.
    ///
    /// # Errors
    /// Names what is missing or which right; [`ErrorKind::ContainerMismatch`] when the container has another partition
    /// key, or differs otherwise and differences are to fail. Nothing was written to it then.
    pub async fn bootstrap<C: Container>(
        &self,
        name: &str,
        config: impl Into<BootstrapConfig> + Send,
    ) -> Result<ContainerClient<C>> {
        check_name("database", self.name())?;
        check_name("container", name)?;
        let config = config.into();
        match config.mode {
            Bootstrap::Skip => return Ok(self.container(name)),
            Bootstrap::VerifyOnly => self.verify::<C>(name, &config).await?,
            Bootstrap::CreateIfMissing => self.create_or_verify::<C>(name, &config).await?,
        }
        Ok(self.container(name))
    }

    /// How the live container `name` differs from the model `C`. Changes nothing.
    ///
    /// # Errors
    /// When it does not exist or may not be read.
    pub async fn differences<C: Container>(&self, name: &str) -> Result<Vec<Difference>> {
        let live = self
            .read_container(name)
            .await
            .map_err(|error| self.explained::<C>(error, name))?;
        Ok(compare(&C::definition(), &live))
    }

    async fn verify<C: Container>(&self, name: &str, config: &BootstrapConfig) -> Result<()> {
        let live = self
            .read_container(name)
            .await
            .map_err(|error| self.explained::<C>(error, name))?;
        self.check::<C>(name, &live, config).await
    }

    /// Reads first: reading is cheaper than a refused creation, and most starts find everything in place.
    async fn create_or_verify<C: Container>(
        &self,
        name: &str,
        config: &BootstrapConfig,
    ) -> Result<()> {
        match self.read_container(name).await {
            Ok(live) => return self.check::<C>(name, &live, config).await,
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(self.explained::<C>(error, name)),
        }
        let created = match self.create_container::<C>(name, config.throughput).await {
            Err(error) if error.is_not_found() => {
                self.create_database()
                    .await
                    .map_err(|error| self.explained::<C>(error, name))?;
                self.create_container::<C>(name, config.throughput).await
            }
            other => other,
        };
        let is_new = match created {
            Ok(_) => true,
            // Another process created it, or an earlier attempt whose answer was lost.
            Err(error) if error.is_conflict() => false,
            Err(error) => return Err(self.explained::<C>(error, name)),
        };
        // Ranges and sessions of a former container of this name are of no use.
        self.client().forget(self.name(), Some(name));
        self.until_ready::<C>(name).await?;
        if is_new {
            return Ok(());
        }
        self.verify::<C>(name, config).await
    }

    /// A container that was just created may be unknown to some replicas for a moment. Listing its ranges has to work
    /// before anything else does, and the list is needed anyway.
    async fn until_ready<C: Container>(&self, name: &str) -> Result<()> {
        let container = self.container::<C>(name);
        let mut attempts = 0;
        loop {
            attempts += 1;
            match container.ranges().await {
                Err(error) if error.is_not_found() && attempts < READY_ATTEMPTS => {
                    tokio::time::sleep(READY_DELAY).await;
                }
                other => return other.map(drop),
            }
        }
    }

    async fn check<C: Container>(
        &self,
        name: &str,
        live: &ContainerDefinition,
        config: &BootstrapConfig,
    ) -> Result<()> {
        let model = C::definition();
        let differences = compare(&model, live);
        if let Some(fatal) = differences.iter().find(|difference| difference.is_fatal()) {
            return Err(mismatch(format!(
                "container `{name}` is not the one of `{}`: {fatal}",
                C::NAME
            )));
        }
        let (lacks, others): (Vec<_>, Vec<_>) = match config.on_difference {
            OnDifference::Extend => differences.into_iter().partition(Difference::is_addition),
            OnDifference::Warn | OnDifference::Fail => (Vec::new(), differences),
        };
        if !others.is_empty() && config.on_difference == OnDifference::Fail {
            return Err(mismatch(format!(
                "container `{name}` differs from the model of `{}`: {}",
                C::NAME,
                told(&others)
            )));
        }
        if !others.is_empty() {
            tracing::warn!(
                container = name,
                model = C::NAME,
                differences = told(&others),
                "live container differs from its model"
            );
        }
        if lacks.is_empty() {
            return Ok(());
        }
        let extended = match config.mode {
            Bootstrap::CreateIfMissing => self.extend_container(name, &model).await,
            Bootstrap::VerifyOnly | Bootstrap::Skip => Err(mismatch(
                "nothing may be changed with `VerifyOnly`".to_owned(),
            )),
        };
        extended.map_err(|error| match error.kind() {
            ErrorKind::Forbidden | ErrorKind::ContainerMismatch => mismatch(format!(
                "container `{name}` lacks what `{}` needs, which an administrator has to add: {} ({error})",
                C::NAME,
                told(&lacks)
            )),
            _ => error,
        })
    }

    /// Says what is missing in words that someone at a portal or a command line can act on.
    pub(super) fn explained<C: Container>(&self, error: Error, name: &str) -> Error {
        let (database, action) = (self.name(), Action(&error));
        match error.kind() {
            ErrorKind::NotFound => {
                let cure = format!(
                    "container `{name}` of database `{database}` does not exist; create it, or bootstrap with `CreateIfMissing`"
                );
                error.with_context(&cure)
            }
            ErrorKind::Forbidden => {
                let right = missing_right(error.status(), &C::definition());
                let cure = format!(
                    "this identity may not {action} (container `{name}` of database `{database}`): {right}"
                );
                error.with_context(&cure)
            }
            ErrorKind::Unauthorized => {
                let cure = format!(
                    "the account refuses the key or token, so nothing is known about container `{name}`"
                );
                error.with_context(&cure)
            }
            _ => error,
        }
    }
}

/// What an administrator has to do. Sub-statuses of roles: protocol.md 1.2.
fn missing_right(status: Option<Status>, definition: &ContainerDefinition) -> String {
    match status {
        Some(Status::NOT_FOR_DATA_ROLES) => format!(
            "no data-plane role allows that, so an administrator has to create both with the portal, ARM or the command \
             line: partition key {}, default time to live {}, and the model's indexing policy; what exists is then found",
            definition.partition_key.paths.join(", "),
            definition.default_ttl.map_or("off".to_owned(), |ttl| ttl.to_string()),
        ),
        Some(Status::NO_ROLE_FOR_METADATA) => "an administrator has to assign it a data-plane role, such as `Cosmos DB \
             Built-in Data Contributor`; where metadata must not be read, bootstrap with `Skip`"
            .to_owned(),
        _ => "create it with another identity, or grant the right; bootstrap with `VerifyOnly` to create nothing, with \
              `Skip` where metadata may not be read either"
            .to_owned(),
    }
}

/// The step that failed, for a sentence.
struct Action<'a>(&'a Error);

impl fmt::Display for Action<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.call() {
            Some(call) => call.operation.fmt(f),
            None => f.write_str("do this"),
        }
    }
}

fn told(differences: &[Difference]) -> String {
    let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
    told.join("; ")
}

fn mismatch(message: String) -> Error {
    Error::new(ErrorKind::ContainerMismatch, message)
}
