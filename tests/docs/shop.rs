// The shop of the book, with every field that its pages add. The examples of the book include this
// file in a hidden line.
use std::error::Error;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, DatabaseClient, MasterKey};
use cdb_coordination::{ChangeFeedState, MessageDocument};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document, Lease, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{customer}:order:{number}")]
#[document(composite(BY_TOTAL = r#type, state, total_cents))]
pub struct Order {
    #[document(partition_key)]
    pub customer: String,
    pub number: u64,
    #[document(index)]
    pub state: String,
    #[document(index)]
    pub total_cents: u64,
    #[document(index)]
    pub tags: Vec<String>,
    pub remark: Option<String>,
    pub answer: Option<String>,
    #[document(paths(street: String))]
    pub address: Address,
    #[document(created_at)]
    pub created_at: Option<Timestamp>,
    #[document(updated_at, index)]
    pub updated_at: Option<Timestamp>,
    #[document(soft_delete)]
    pub deleted_at: Option<Timestamp>,
    #[document(lease)]
    pub lease: Lease,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Address {
    pub street: String,
}

#[derive(Container, Debug)]
#[container(partition_key = "/customer")]
pub enum Shop {
    Order(Order),
    Message(MessageDocument<Shop>),
}

/// An open order of Ann.
pub fn order(number: u64) -> Order {
    Order {
        customer: "ann".into(),
        number,
        state: "open".into(),
        total_cents: 990,
        tags: Vec::new(),
        remark: None,
        answer: None,
        address: Address::default(),
        created_at: None,
        updated_at: None,
        deleted_at: None,
        lease: Lease::free(),
    }
}

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

/// Runs an example on a new shop.
pub fn with_shop(
    example: impl AsyncFnOnce(ContainerClient<Shop>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    with_database(async |database| {
        example(database.bootstrap("orders", Bootstrap::CreateIfMissing).await?).await
    })
}

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
