//! A node: a real duroxide runtime on a real provider, and handlers of ordered work. It can be
//! killed at any time.

use std::sync::Arc;
use std::time::Duration;

use cdb_chaos::{CONTAINER, DATABASE, Documents, Ledger, keep_trying};
use cdb_client::database::{BootstrapConfig, OnDifference};
use cdb_client::transport::Transport;
use cdb_client::{ContainerClient, CosmosClient, MasterKey};
use cdb_provider::payload::{EncodedPayload, PayloadCodec, PayloadError};
use cdb_provider::record::{Recorded, Recorder};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, HandOver, MembershipConfig};
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{ObservabilityConfig, Runtime, RuntimeOptions};
use duroxide::{OrchestrationContext, OrchestrationRegistry};

use crate::excuses::Excuses;
use crate::judges::{self, Handling, Judges};
use crate::network::{Link, Network, NodeTransport};
use crate::virtual_time::{elapsed, with_clock_ahead};
use crate::workload::{Part, StartingNode, Workload};
use crate::workloads::Workloads;

/// Dispatchers of turns in a node.
const CONCURRENCY: u32 = 2;

/// Dispatchers of activities in a node. Two workloads have an activity each that takes minutes.
pub(crate) const WORKERS: u32 = 3;

/// The container of idle nodes, which gets no work.
const IDLE_CONTAINER: &str = "idle";

/// The pause between two polls and between two heartbeats of an idle node with a slow pace.
pub(crate) const SLOW: Duration = Duration::from_secs(10);

/// The settings that all nodes of a cluster share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeConfig {
    /// Whether the nodes share the work by membership.
    pub(crate) members: bool,
    /// How long ended orchestrations are kept.
    pub(crate) retention: Duration,
    /// Whether the node works on containers without work.
    pub(crate) idle: bool,
    pub(crate) pace: Pace,
}

/// How often idle nodes ask the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The default settings.
    Default,
    /// Every ten seconds, so that more virtual time passes with as much work.
    Slow,
}

impl Pace {
    /// Returns the pause between two searches for messages.
    pub(crate) fn messages(self) -> Duration {
        match self {
            Self::Default => SLOW,
            Self::Slow => SLOW * 3,
        }
    }

    /// Returns the settings of a member.
    pub(crate) fn member(self, name: String) -> MembershipConfig {
        let mut config = MembershipConfig::named(name);
        if self == Self::Slow {
            config.heartbeat = SLOW;
        }
        config
    }
}

/// A running node.
pub(crate) struct Node {
    transport: NodeTransport,
    runtime: Arc<Runtime>,
    /// What workloads run besides the runtime.
    parts: Vec<Part>,
}

/// What nodes, workloads and judges of a run share.
pub(crate) struct Shared {
    pub(crate) workloads: Workloads,
    pub(crate) judges: Judges,
    /// The handlers that run.
    pub(crate) handling: Handling,
    /// The faults.
    pub(crate) excuses: Excuses,
    /// The record of the run, as the process of the clients.
    pub(crate) recorder: Option<Recorder>,
}

impl Shared {
    pub(crate) fn new(workloads: Workloads, recorder: Option<Recorder>) -> Self {
        let excuses = Excuses::default();
        let handling = Handling::new(&excuses);
        Self {
            workloads,
            judges: judges::all(&handling),
            handling,
            excuses,
            recorder,
        }
    }

    /// Returns the containers of the workloads.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &'static str> {
        self.workloads.iter().filter_map(|it| it.container())
    }

    /// Returns whether a workload is such.
    pub(crate) fn any(&self, is_such: impl Fn(&dyn Workload) -> bool) -> bool {
        self.workloads.iter().any(|it| is_such(&**it))
    }

    /// Notes that a node is killed.
    pub(crate) fn killed(&self, node: u32) {
        self.judges.iter().for_each(|it| it.killed(node));
        self.workloads.iter().for_each(|it| it.killed(node));
    }

    /// Returns a provider whose calls are recorded, if the run is, as those of a process.
    pub(crate) fn recorded(
        &self,
        provider: Arc<CosmosDBProvider>,
        process: Option<&str>,
    ) -> Arc<dyn Provider> {
        let Some(recorder) = &self.recorder else {
            return provider;
        };
        let recorder = process.map_or_else(|| recorder.clone(), |it| recorder.process(it));
        Arc::new(Recorded::new(provider, &recorder))
    }
}

impl Node {
    /// Starts a node whose machine's clock is `clock_ahead` milliseconds ahead, with the
    /// orchestrations of so many deployments.
    pub(crate) async fn start(
        network: &Arc<Network>,
        number: u32,
        config: NodeConfig,
        clock_ahead: i64,
        deployed: u32,
        shared: &Shared,
    ) -> Result<Self, String> {
        let transport = network.connect(number);
        let client = with_clock_ahead(clock_ahead, || client(network, &transport));
        let (provider, documents) = keep_trying(|| open(&client, number, config)).await?;
        let ledger = keep_trying(|| Ledger::on(&client)).await?;
        let member = StartingNode {
            number,
            config,
            client: &client,
            provider: &provider,
            documents: &documents,
            handling: &shared.handling,
            excuses: &shared.excuses,
        };
        let mut parts = Vec::new();
        for workload in &shared.workloads {
            parts.push(workload.join(&member).await?);
        }
        let process = format!("node-{number}-{}", elapsed().as_millis());
        let options = RuntimeOptions {
            orchestration_concurrency: CONCURRENCY as usize,
            worker_concurrency: WORKERS as usize,
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
        let mut activities = ActivityRegistry::builder_from(&cdb_chaos::activities(&ledger));
        let mut orchestrations = OrchestrationRegistry::builder_from(&cdb_chaos::orchestrations())
            .register("Once", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity("Echo", "once").await
            });
        for workload in &shared.workloads {
            activities = workload.activities(activities, &member);
            orchestrations = workload.orchestrations(orchestrations, deployed);
        }
        let (activities, orchestrations) = (activities.build(), orchestrations.build());
        let provider = shared.recorded(Arc::new(provider), Some(&process));
        let runtime =
            Runtime::start_with_options(provider, activities, orchestrations, options).await;
        Ok(Self {
            transport,
            runtime,
            parts,
        })
    }

    pub(crate) fn set_link(&self, link: Link) {
        self.transport.set(link);
    }

    /// Kills the node: nothing that it still does reaches the service.
    pub(crate) async fn kill(self) {
        self.transport.set(Link::Dead);
        drop(self.parts);
        self.runtime.shutdown(Some(0)).await;
    }
}

/// A codec with one key. It stores payloads as they are if it has none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codec(pub(crate) Option<&'static str>);

impl PayloadCodec for Codec {
    fn name(&self) -> &'static str {
        "simulation"
    }

    fn encode(&self, payload: &str) -> Result<Option<EncodedPayload>, PayloadError> {
        let encoded = self.0.map(|key| EncodedPayload {
            key: key.to_owned(),
            bytes: payload.as_bytes().to_vec(),
        });
        Ok(encoded)
    }

    fn decode(&self, key: &str, _: &[u8]) -> Result<String, PayloadError> {
        Err(PayloadError::Unavailable(format!("key {key} is missing")))
    }
}

/// Returns a client that uses a node's connection.
pub(crate) fn client(
    network: &Network,
    transport: &(impl Transport + Clone + 'static),
) -> CosmosClient {
    let key = MasterKey::new(network.emulator.key()).expect("the emulator's key is one");
    CosmosClient::builder(network.emulator.endpoint())
        .credential(key)
        .transport(transport.clone())
        .build()
        .expect("the emulator's endpoint is one")
}

/// Opens a provider that works.
pub(crate) async fn open(
    client: &CosmosClient,
    number: u32,
    config: NodeConfig,
) -> Result<(CosmosDBProvider, ContainerClient<Documents>), String> {
    let mut wanted = settings();
    // The default name contains the number of the process. The time makes it unique, as that does.
    let name = format!("node-{number}-{}", elapsed().as_millis());
    wanted.membership = config.members.then(|| config.pace.member(name));
    if config.pace == Pace::Slow {
        wanted.max_poll_interval = SLOW;
        wanted.reconciler_interval = SLOW;
    }
    wanted.retention = Some(config.retention);
    // A third of the nodes also when it does not pay, and a third as before there were hand-overs.
    wanted.hand_over = match number % 3 {
        0 => HandOver::WithSpareDispatchers,
        1 => HandOver::Always,
        _ => HandOver::Never,
    };
    if config.idle {
        IDLE_CONTAINER.clone_into(&mut wanted.container);
    }
    open_with(client, &wanted).await
}

/// Opens a provider for clients: it does no work of a runtime.
pub(crate) async fn open_for_clients(client: &CosmosClient) -> Result<CosmosDBProvider, String> {
    open_for_clients_with(client, Codec(None)).await
}

/// Opens a provider for clients whose payloads have this codec.
pub(crate) async fn open_for_clients_with(
    client: &CosmosClient,
    codec: Codec,
) -> Result<CosmosDBProvider, String> {
    let mut wanted = settings();
    wanted.payload_codec = Some(Arc::new(codec));
    wanted.reconciler_interval = Duration::from_secs(24 * 3600);
    Ok(open_with(client, &wanted).await?.0)
}

fn settings() -> CosmosDBProviderConfig {
    CosmosDBProviderConfig {
        database: DATABASE.to_owned(),
        container: CONTAINER.to_owned(),
        orch_concurrency: CONCURRENCY,
        worker_concurrency: WORKERS,
        payload_codec: Some(Arc::new(Codec(None))),
        ..CosmosDBProviderConfig::default()
    }
}

pub(crate) async fn open_with(
    client: &CosmosClient,
    config: &CosmosDBProviderConfig,
) -> Result<(CosmosDBProvider, ContainerClient<Documents>), String> {
    let database = client.database(&config.database);
    let bootstrap = BootstrapConfig::from(config.bootstrap)
        .with_on_difference(OnDifference::Extend)
        .with_index_timeout(config.index_timeout);
    let container = database.bootstrap::<Documents>(&config.container, bootstrap);
    let container = container.await.map_err(|error| error.to_string())?;
    let provider = CosmosDBProvider::on(container.clone(), config).await;
    Ok((provider.map_err(|error| error.to_string())?, container))
}
