//! A node: a real duroxide runtime on a real provider, and handlers of ordered work. It can be
//! killed at any time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cdb_chaos::{CONTAINER, DATABASE, Ledger, keep_trying};
use cdb_client::{CosmosClient, MasterKey};
use cdb_provider::documents::Durable;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, MembershipConfig};
use duroxide::runtime::{ObservabilityConfig, Runtime, RuntimeOptions};

use crate::network::{Link, Network, NodeTransport};
use crate::orchestrations::{activities, orchestrations};
use crate::streams::{Record, StreamWorker};
use crate::virtual_time::{elapsed, with_clock_ahead};

/// Dispatchers of each kind in a node.
const CONCURRENCY: u32 = 2;

/// The settings that all nodes of a cluster share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeConfig {
    /// Whether the nodes share the work by membership.
    pub(crate) members: bool,
    /// How long ended orchestrations are kept.
    pub(crate) retention: Duration,
}

/// A running node.
pub(crate) struct Node {
    transport: NodeTransport,
    runtime: Arc<Runtime>,
    streams: StreamWorker,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Starts a node whose machine's clock is `clock_ahead` milliseconds ahead.
    pub(crate) async fn start(
        network: &Arc<Network>,
        number: u32,
        config: NodeConfig,
        clock_ahead: i64,
        record: &Record,
    ) -> Result<Self, String> {
        let transport = network.connect(number);
        let client = with_clock_ahead(clock_ahead, || client(network, &transport));
        let provider = keep_trying(|| open(&client, number, config)).await?;
        let ledger = keep_trying(|| Ledger::on(&client)).await?;
        let streams = StreamWorker::start(&client, number, record).await?;
        let options = RuntimeOptions {
            orchestration_concurrency: CONCURRENCY as usize,
            worker_concurrency: CONCURRENCY as usize,
            worker_node_id: Some(format!("node-{number}")),
            // A kill costs an attempt, and the message must not become poison.
            max_attempts: 10_000,
            // Gauges read all instances, which takes most of the time of a long simulation.
            observability: ObservabilityConfig {
                gauge_poll_interval: Duration::from_secs(3600),
                ..ObservabilityConfig::default()
            },
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::start_with_options(
            Arc::new(provider),
            activities(&ledger),
            orchestrations(),
            options,
        );
        Ok(Self {
            runtime: runtime.await,
            streams,
            transport,
        })
    }

    pub(crate) fn set_link(&self, link: Link) {
        self.transport.set(link);
    }

    /// Kills the node: nothing that it still does reaches the service.
    pub(crate) async fn kill(self) {
        self.transport.set(Link::Dead);
        drop(self.streams);
        self.runtime.shutdown(Some(0)).await;
    }
}

/// Returns a client that uses a node's connection.
pub(crate) fn client(network: &Network, transport: &NodeTransport) -> CosmosClient {
    let key = MasterKey::new(network.emulator.key()).expect("the emulator's key is one");
    CosmosClient::builder(network.emulator.endpoint())
        .credential(key)
        .transport(transport.clone())
        .build()
        .expect("the emulator's endpoint is one")
}

/// Opens a provider that works.
async fn open(
    client: &CosmosClient,
    number: u32,
    config: NodeConfig,
) -> Result<CosmosDBProvider, String> {
    let mut wanted = settings();
    // The default name contains the number of the process. The time makes it unique, as that does.
    let name = format!("node-{number}-{}", elapsed().as_millis());
    wanted.membership = config.members.then(|| MembershipConfig::named(name));
    wanted.retention = Some(config.retention);
    open_with(client, &wanted).await
}

/// Opens a provider for clients: it does no work of a runtime.
pub(crate) async fn open_for_clients(client: &CosmosClient) -> Result<CosmosDBProvider, String> {
    let mut wanted = settings();
    wanted.reconciler_interval = Duration::from_secs(24 * 3600);
    open_with(client, &wanted).await
}

fn settings() -> CosmosDBProviderConfig {
    CosmosDBProviderConfig {
        database: DATABASE.to_owned(),
        container: CONTAINER.to_owned(),
        orch_concurrency: CONCURRENCY,
        worker_concurrency: CONCURRENCY,
        ..CosmosDBProviderConfig::default()
    }
}

async fn open_with(
    client: &CosmosClient,
    config: &CosmosDBProviderConfig,
) -> Result<CosmosDBProvider, String> {
    let database = client.database(&config.database);
    let container = database.bootstrap::<Durable>(&config.container, config.bootstrap);
    let container = container.await.map_err(|error| error.to_string())?;
    let provider = CosmosDBProvider::on(container, config).await;
    provider.map_err(|error| error.to_string())
}
