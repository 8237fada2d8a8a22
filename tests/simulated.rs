//! What a test with a paused clock needs of real time: a Tokio runtime for emulators, in which the clock runs.

use std::future::Future;
use std::sync::OnceLock;

use cdb_client::{CosmosClient, MasterKey, SimulatedTime, Transport};
use cdb_provider::documents::Durable;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::providers::ProviderError;
use tokio::runtime::{Handle, Runtime};

/// Returns the runtime of all emulators whose tests pause their clock.
pub(crate) fn service() -> Handle {
    static SERVICE: OnceLock<Runtime> = OnceLock::new();
    let runtime = SERVICE.get_or_init(|| Runtime::new().expect("threads can be started"));
    runtime.handle().clone()
}

/// Runs `work` in the emulators' runtime, while the clock of the test stands still.
pub(crate) async fn in_real_time<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let done = tokio::task::spawn_blocking(|| service().block_on(work));
    done.await.expect("it does not panic")
}

/// Opens a provider in simulated time that sends its requests through `transport`.
pub(crate) async fn open(
    config: CosmosDBProviderConfig,
    time: &SimulatedTime,
    transport: impl Transport,
) -> Result<CosmosDBProvider, ProviderError> {
    let client = CosmosClient::builder(&config.endpoint)
        .credential(MasterKey::new(&config.key).expect("the emulator's key is one"))
        .transport(transport)
        .clock_of(time)
        .build()
        .expect("the emulator's endpoint is one");
    let database = client.database(&config.database);
    let container = database.bootstrap::<Durable>(&config.container, config.bootstrap);
    let container = container.await.expect("the container opens");
    CosmosDBProvider::on(container, &config).await
}
