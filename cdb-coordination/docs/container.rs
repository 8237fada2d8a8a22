// What the examples of this crate's documentation run on: a container on an emulator of their own. Included by them, not
// compiled with the crate; so are the files beside it, each with what some of the examples need, because every example
// compiles what it includes.
use std::error::Error;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::Container;

/// Runs an example on a container of any kind.
pub fn with_container<C: Container>(
    name: &str,
    example: impl AsyncFnOnce(ContainerClient<C>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let emulator = Emulator::start().await?;
        let builder = CosmosClient::builder(emulator.endpoint());
        let client = builder
            .credential(MasterKey::new(emulator.key())?)
            .build()?;
        let database = client.database("shop");
        let container = database.bootstrap(name, Bootstrap::CreateIfMissing).await?;
        example(container).await
    })
}
