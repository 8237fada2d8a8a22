//! The containers, and the effect of a received message.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::{ContainerClient, CosmosClient, DatabaseClient, MasterKey};
use cdb_coordination::HandlerError;
use cdb_coordination::membership::InMemoryLeaseProvider;
use cdb_model::{Container, Document, Patch};
use cdb_work::{
    Completed, Partitions, Work, WorkConfig, WorkContext, WorkCoordinator, WorkHandlers,
};
use serde::{Deserialize, Serialize};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How many messages of a stream have taken effect.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "tally", id = "{partition}:tally:{stream}")]
pub struct Tally {
    #[document(partition_key)]
    pub partition: String,
    pub stream: String,
    /// The number of the last message.
    #[document(index)]
    pub last: u64,
    pub count: u64,
}

#[derive(Container, Clone, Debug)]
pub enum Shop {
    #[container(extends)]
    Work(Work),
    Tally(Tally),
}

pub fn database(endpoint: &str) -> Result<DatabaseClient, Failure> {
    let key = MasterKey::new(cdb_emulator::WELL_KNOWN_KEY)?;
    let client = CosmosClient::builder(endpoint).credential(key).build()?;
    Ok(client.database("shop"))
}

pub fn partitions() -> Partitions {
    Partitions::new(4).unwrap_or_default()
}

/// Opens the only coordinator of a container. Waits for the leases of a killed predecessor.
pub async fn coordinator(container: &ContainerClient<Shop>) -> Result<WorkCoordinator, Failure> {
    let mut config = WorkConfig::default();
    config.partitions = partitions();
    config.lease = Duration::from_secs(2);
    config.upkeep = Duration::from_millis(200);
    config.retry.max_attempts = 100;
    config.retry.longest_delay = Duration::from_secs(2);
    let alone = Arc::new(InMemoryLeaseProvider::all());
    Ok(WorkCoordinator::open(container.view(), alone, config).await?)
}

/// Counts each message, under the condition that it follows the last counted one.
pub fn handlers() -> WorkHandlers {
    WorkHandlers::new()
        .otherwise(async |work: WorkContext| counted(&work))
        .on_failure(|failure| eprintln!("{}: {}", failure.message.message_id, failure.reason))
}

fn counted(work: &WorkContext) -> Result<Completed, HandlerError> {
    let message = work.message();
    let number: u64 = message.message_id.parse()?;
    let mut effects = work.effects::<Shop>();
    let patch = Patch::<Tally>::new()
        .set(Tally::LAST, number)
        .incr(Tally::COUNT, 1)
        .when(Tally::LAST.eq(number - 1));
    effects.add(patch.at(&TallyKey::new(&*message.partition, &*message.stream)))?;
    Ok(work.done().with_effects(&effects)?)
}
