// For files that define `Shop` and include `container.rs`.
use cdb_coordination::change_feed::ChangeFeedState;

/// Runs an example on a new shop and a container for the state of change processors.
pub fn with_feed(
    example: impl AsyncFnOnce(
        ContainerClient<Shop>,
        ContainerClient<ChangeFeedState>,
    ) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    with_database(async |database| {
        let shop = database.bootstrap("orders", Bootstrap::CreateIfMissing).await?;
        let state = database.bootstrap("change-feeds", Bootstrap::CreateIfMissing).await?;
        example(shop, state).await
    })
}
