// What the examples of this crate's documentation stand on: a model, and a container on an emulator of their own. Included
// by them, not compiled with the crate.
use std::error::Error;
use std::sync::Arc;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::{InMemoryLeaseProvider, Mail, Message, Work, WorkConfig, WorkCoordinator};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document, Lease};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "order", id = "{customer}:order:{number}")]
pub struct Order {
    #[document(partition_key)]
    pub customer: String,
    pub number: u64,
    #[document(index)]
    pub state: String,
    #[document(lease)]
    pub lease: Lease,
}

#[derive(Container, Debug)]
#[container(partition_key = "/customer")]
pub enum Shop {
    Order(Order),
    Mail(Mail<Shop>),
}

#[derive(Serialize, Deserialize, Debug)]
pub struct Placed {
    pub number: u64,
}

impl Message for Placed {
    const TYPE: &'static str = "placed";
}

pub fn order(number: u64) -> Order {
    Order {
        customer: "ann".into(),
        number,
        state: "open".into(),
        lease: Lease::free(),
    }
}

/// Runs an example on a container that is there.
pub fn with_shop(
    example: impl AsyncFnOnce(ContainerClient<Shop>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    with_container("orders", example)
}

/// Runs an example on a coordinator that is alone.
pub fn with_work(
    example: impl AsyncFnOnce(WorkCoordinator) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    with_container("work", async |container: ContainerClient<Work>| {
        let all = Arc::new(InMemoryLeaseProvider::all());
        example(WorkCoordinator::open(container, all, WorkConfig::default()).await?).await
    })
}

fn with_container<C: Container>(
    name: &str,
    example: impl AsyncFnOnce(ContainerClient<C>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let emulator = Emulator::start().await?;
        let builder = CosmosClient::builder(emulator.endpoint());
        let client = builder.credential(MasterKey::new(emulator.key())?).build()?;
        let database = client.database("shop");
        let container = database.bootstrap(name, Bootstrap::CreateIfMissing).await?;
        example(container).await
    })
}
