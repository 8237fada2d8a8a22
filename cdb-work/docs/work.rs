// For the examples of the work coordinator.
include!("../../cdb-coordination/docs/container.rs");

use std::sync::Arc;

use cdb_coordination::membership::InMemoryLeaseProvider;
use cdb_work::{Work, WorkConfig, WorkCoordinator};

/// Runs an example with a single coordinator.
pub fn with_work(
    example: impl AsyncFnOnce(WorkCoordinator) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    with_container("work", async |container: ContainerClient<Work>| {
        example(coordinator(container).await?).await
    })
}

/// Opens a single coordinator.
pub async fn coordinator(
    container: ContainerClient<Work>,
) -> Result<WorkCoordinator, Box<dyn Error>> {
    let all = Arc::new(InMemoryLeaseProvider::all());
    Ok(WorkCoordinator::open(container, all, WorkConfig::default()).await?)
}
