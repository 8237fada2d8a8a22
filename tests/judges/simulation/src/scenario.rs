//! A cluster for a directed simulation: nodes with settings of their own, and faults at chosen
//! times.

use std::sync::Arc;
use std::time::Duration;

use cdb_chaos::{CONTAINER, DATABASE, keep_trying};
use cdb_client::CosmosClient;
use cdb_emulator::{Emulator, Settings};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, OrchestrationRegistry};
use tokio::time::Instant;
use tracing::subscriber::NoSubscriber;

use crate::blocked::Codec;
use crate::network::{Link, Network, NodeTransport};
use crate::node::{client, open_for_clients, open_with};
use crate::virtual_time;

/// The service, and the network to it.
#[derive(Debug)]
pub struct Scenario {
    network: Arc<Network>,
}

/// The settings of a node.
#[derive(Clone)]
pub struct NodeSettings {
    /// The settings of its provider.
    pub provider: CosmosDBProviderConfig,
    /// The settings of its runtime.
    pub runtime: RuntimeOptions,
    /// The activities that it runs.
    pub activities: ActivityRegistry,
    /// The orchestrations that it runs.
    pub orchestrations: OrchestrationRegistry,
}

/// A node of a scenario.
pub struct ScenarioNode {
    /// Its provider.
    pub provider: Arc<CosmosDBProvider>,
    runtime: Arc<Runtime>,
    transport: NodeTransport,
}

impl Scenario {
    /// Runs a directed simulation in virtual time, on a thread of its own. Prints every request if
    /// the environment variable `SIMULATION_TRACE` is set.
    ///
    /// # Panics
    /// When the scenario panics.
    pub fn run(emulator: Settings, scenario: impl AsyncFnOnce(Self) + Send + 'static) {
        // Otherwise the runtime prints the warnings of every fault. Another test may have set it.
        let _set = tracing::subscriber::set_global_default(NoSubscriber::default());
        let running = std::thread::spawn(move || {
            virtual_time::enter(1, async {
                let emulator = emulator.seed(1).start_in_process();
                let emulator = emulator.expect("the settings of the emulator are valid");
                let network = Network::new(emulator, 1, Duration::ZERO);
                if std::env::var_os("SIMULATION_TRACE").is_some() {
                    network.trace().print();
                }
                scenario(Self { network }).await;
            });
        });
        if let Err(panic) = running.join() {
            std::panic::resume_unwind(panic);
        }
    }

    /// Returns the service.
    pub fn emulator(&self) -> &Emulator {
        &self.network.emulator
    }

    /// Returns a client of the service without a node.
    pub fn cosmos(&self) -> CosmosClient {
        client(&self.network, &self.network.connect(100))
    }

    /// Opens a provider that does no work of a runtime, and a client on it.
    pub async fn client(&self) -> (Arc<CosmosDBProvider>, Client) {
        let cosmos = self.cosmos();
        let provider = keep_trying(|| open_for_clients(&cosmos)).await;
        let provider = Arc::new(provider.expect("the container opens"));
        (provider.clone(), Client::new(provider))
    }

    /// Opens a provider with these settings, on the connection of a node.
    ///
    /// # Errors
    /// When the container does not open.
    pub async fn open(
        &self,
        number: u32,
        settings: &CosmosDBProviderConfig,
    ) -> Result<CosmosDBProvider, String> {
        let transport = self.network.connect(number);
        let opened = open_with(&client(&self.network, &transport), settings).await;
        Ok(opened?.0)
    }

    /// Starts a node.
    pub async fn node(&self, number: u32, settings: &NodeSettings) -> ScenarioNode {
        let transport = self.network.connect(number);
        let cosmos = client(&self.network, &transport);
        let opened = keep_trying(|| open_with(&cosmos, &settings.provider)).await;
        let provider = Arc::new(opened.expect("the container opens").0);
        let options = settings.runtime.clone();
        let (activities, orchestrations) =
            (settings.activities.clone(), settings.orchestrations.clone());
        let store = provider.clone();
        let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
        ScenarioNode {
            provider,
            runtime,
            transport,
        }
    }
}

impl NodeSettings {
    /// The default settings, on the container of all scenarios.
    pub fn new(orchestrations: OrchestrationRegistry, activities: ActivityRegistry) -> Self {
        Self {
            provider: CosmosDBProviderConfig {
                database: DATABASE.to_owned(),
                container: CONTAINER.to_owned(),
                // That of the clients: a container keeps the name of its codec.
                payload_codec: Some(Arc::new(Codec(None))),
                ..CosmosDBProviderConfig::default()
            },
            runtime: RuntimeOptions::default(),
            activities,
            orchestrations,
        }
    }
}

impl ScenarioNode {
    /// Returns a client that enqueues through this node.
    pub fn client(&self) -> Client {
        Client::new(self.provider.clone())
    }

    /// Cuts the node off for this time.
    pub async fn cut_off(&self, time: Duration) {
        self.transport.set(Link::Cut);
        tokio::time::sleep(time).await;
        self.transport.set(Link::Up);
    }

    /// Kills the node: nothing that it still does reaches the service.
    pub async fn kill(self) -> Instant {
        self.transport.set(Link::Dead);
        let killed = Instant::now();
        self.runtime.shutdown(Some(0)).await;
        killed
    }
}

impl std::fmt::Debug for NodeSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeSettings").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ScenarioNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScenarioNode")
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}
