// What the examples of this crate's documentation stand on: a model, and a container on an emulator of their own. Included
// by them, not compiled with the crate.
use std::error::Error;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, Credential, MasterKey, Transport};
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

/// Runs an example on a container that is there, with a credential made of the account's key.
pub fn with_credential<C: Credential>(
    credential: impl FnOnce(MasterKey) -> C,
    example: impl AsyncFnOnce(ContainerClient<Shop>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let emulator = Emulator::start().await?;
        let account = || CosmosClient::builder(emulator.endpoint());
        let key = MasterKey::new(emulator.key())?;
        let owner = account().credential(key.clone()).build()?;
        owner.database("shop").bootstrap::<Shop>("orders", Bootstrap::CreateIfMissing).await?;
        let client = account().credential(credential(key)).build()?;
        example(client.database("shop").container("orders")).await
    })
}

/// A container whose requests go through this transport instead of a network.
pub fn shop_over(transport: impl Transport) -> Result<ContainerClient<Shop>, Box<dyn Error>> {
    let client = CosmosClient::builder("http://localhost:8081")
        .credential(MasterKey::new(cdb_emulator::WELL_KNOWN_KEY)?)
        .transport(transport)
        .build()?;
    Ok(client.database("shop").container("orders"))
}
