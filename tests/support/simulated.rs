//! Providers of tests in simulated time.

use cdb_client::transport::{SimulatedTime, Transport};
use cdb_client::{ContainerClient, CosmosClient, MasterKey};
use cdb_provider::documents::Durable;
use cdb_provider::model::container::Extends;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::providers::ProviderError;

/// Opens a provider that sends its requests through `transport`, and its container.
pub(crate) async fn open<C: Extends<Durable>>(
    config: CosmosDBProviderConfig,
    time: &SimulatedTime,
    transport: impl Transport,
) -> Result<(CosmosDBProvider, ContainerClient<C>), ProviderError> {
    let client = CosmosClient::builder(&config.endpoint)
        .credential(MasterKey::new(&config.key).expect("the emulator's key is one"))
        .transport(transport)
        .clock_of(time)
        .build()
        .expect("the emulator's endpoint is one");
    let database = client.database(&config.database);
    let container = database.bootstrap::<C>(&config.container, config.bootstrap);
    let container = container.await.expect("the container opens");
    let provider = CosmosDBProvider::on(container.clone(), &config).await?;
    Ok((provider, container))
}
