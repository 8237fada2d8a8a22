// The containers of the examples of change-feed processors.
include!("shop.rs");

use cdb_coordination::ChangeFeedState;

/// Runs an example on a new shop and a container for the state of processors.
pub fn with_feed(
    example: impl AsyncFnOnce(
        ContainerClient<Shop>,
        ContainerClient<ChangeFeedState>,
    ) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let emulator = Emulator::start().await?;
        let builder = CosmosClient::builder(emulator.endpoint());
        let client = builder
            .credential(MasterKey::new(emulator.key())?)
            .build()?;
        let database = client.database("shop");
        let shop = database.bootstrap("orders", Bootstrap::CreateIfMissing).await?;
        let state = database.bootstrap("change-feeds", Bootstrap::CreateIfMissing).await?;
        example(shop, state).await
    })
}
