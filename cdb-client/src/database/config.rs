//! How to open a container: what may be created, and what happens to differences from the model.

use std::time::Duration;

/// What [`DatabaseClient::bootstrap`](crate::DatabaseClient::bootstrap) may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Bootstrap {
    /// Creates a missing database or container, and checks an existing container.
    #[default]
    CreateIfMissing,
    /// Checks an existing container. Requires the right to read metadata.
    VerifyOnly,
    /// Sends nothing and checks nothing.
    Skip,
}

/// What to do about a live container whose indexing policy or default time to live differs from the
/// model's. A container with another partition key or other unique keys is always refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDifference {
    /// Logs a warning and continues: all queries work, some at a higher cost.
    #[default]
    Warn,
    /// Fails with [`ErrorKind::ContainerDiffers`](crate::ErrorKind::ContainerDiffers).
    Fail,
    /// Adds the indexes, vectors and default time to live that the container lacks, removes nothing, and
    /// waits until the index is built, even if another process added it; see
    /// [`BootstrapConfig::index_timeout`]. With [`Bootstrap::VerifyOnly`], or
    /// without the right, fails with [`ErrorKind::ContainerDiffers`](crate::ErrorKind::ContainerDiffers) and names what to add. Logs a
    /// warning about other differences.
    Extend,
}

/// Request units per second of a new container. Has no effect on an existing one. Serverless
/// accounts allow only [`Unspecified`](Self::Unspecified).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Throughput {
    /// A share of the database's throughput, or the service's default.
    #[default]
    Unspecified,
    /// A fixed number: a multiple of 100, at least 400.
    Manual(u32),
    /// Autoscale up to this maximum, a multiple of 1000. The service always provides a tenth of it.
    Autoscale(u32),
}

/// How to bootstrap a container.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_client::database::{BootstrapConfig, OnDifference, Throughput};
/// use cdb_client::{Bootstrap, ContainerClient, DatabaseClient};
/// use shop::Shop;
///
/// async fn open(database: &DatabaseClient) -> cdb_client::Result<ContainerClient<Shop>> {
///     let config = BootstrapConfig::from(Bootstrap::CreateIfMissing)
///         .with_throughput(Throughput::Autoscale(4_000))
///         .with_on_difference(OnDifference::Extend);
///     database.bootstrap("orders", config).await
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BootstrapConfig {
    /// Whether to create and check the container.
    pub mode: Bootstrap,
    /// The throughput of a new container.
    pub throughput: Throughput,
    /// What to do about differences from the model.
    pub on_difference: OnDifference,
    /// Whether the account may have several write regions. `false` by default: two regions could
    /// accept conflicting conditional writes, and leases, locks and ETags rely on one of them being
    /// refused. [`Bootstrap::Skip`] does not check it;
    /// [`check_account`](crate::ContainerClient::check_account) does.
    pub several_write_regions: bool,
    /// How long [`OnDifference::Extend`] waits for an index that is being built; ten minutes by
    /// default. The service builds it with spare request units, so a large container takes longer.
    pub index_timeout: Duration,
}

impl Default for BootstrapConfig {
    fn default() -> Self {
        Self {
            mode: Bootstrap::default(),
            throughput: Throughput::default(),
            on_difference: OnDifference::default(),
            several_write_regions: false,
            index_timeout: Duration::from_secs(600),
        }
    }
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
    /// Sets the throughput of a new container.
    pub fn with_throughput(mut self, throughput: Throughput) -> Self {
        self.throughput = throughput;
        self
    }

    /// Sets what to do about differences from the model.
    pub fn with_on_difference(mut self, on_difference: OnDifference) -> Self {
        self.on_difference = on_difference;
        self
    }

    /// Sets whether the account may have several write regions.
    pub fn with_several_write_regions(mut self, allowed: bool) -> Self {
        self.several_write_regions = allowed;
        self
    }

    /// Sets how long to wait for an index that is being built.
    pub fn with_index_timeout(mut self, timeout: Duration) -> Self {
        self.index_timeout = timeout;
        self
    }
}
