// What the examples of this crate's documentation stand on: a model, and a container on an emulator of their own. Included
// by them, not compiled with the crate.
use std::error::Error;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "order", id = "{customer}:order:{number}")]
pub struct Order {
    #[document(partition_key)]
    pub customer: String,
    pub number: u64,
    #[document(index)]
    pub status: String,
}

#[derive(Container, Debug)]
#[container(partition_key = "/customer")]
pub enum Shop {
    Order(Order),
}

pub fn order(number: u64) -> Order {
    Order {
        customer: "ann".into(),
        number,
        status: "open".into(),
    }
}

/// Runs an example on a client of an account.
pub fn with_client(
    example: impl AsyncFnOnce(CosmosClient) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let emulator = Emulator::start().await?;
        let builder = CosmosClient::builder(emulator.endpoint());
        let client = builder.credential(MasterKey::new(emulator.key())?).build()?;
        example(client).await
    })
}

/// Runs an example on a container that is there.
pub fn with_shop(
    example: impl AsyncFnOnce(ContainerClient<Shop>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    with_client(async |client| {
        let database = client.database("shop");
        let shop = database.bootstrap("orders", Bootstrap::CreateIfMissing).await?;
        example(shop).await
    })
}
