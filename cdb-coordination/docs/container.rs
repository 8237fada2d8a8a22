// The container of the documentation's examples, on an emulator. The examples include this file or
// one of the files beside it, which are not compiled with the crate. An example compiles everything
// that it includes.
use std::error::Error;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, DatabaseClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::Container;

/// Runs an example on a new database.
pub fn with_database(
    example: impl AsyncFnOnce(DatabaseClient) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let emulator = Emulator::start().await?;
        let builder = CosmosClient::builder(emulator.endpoint());
        let client = builder
            .credential(MasterKey::new(emulator.key())?)
            .build()?;
        example(client.database("shop")).await
    })
}

/// Runs an example on a new container.
pub fn with_container<C: Container>(
    name: &str,
    example: impl AsyncFnOnce(ContainerClient<C>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    with_database(async |database| {
        example(database.bootstrap(name, Bootstrap::CreateIfMissing).await?).await
    })
}
