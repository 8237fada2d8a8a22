//! A container of orders for one test, and clients on it.

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, DatabaseClient, MasterKey, Transport};
use cdb_coordination::{LeaseGuard, Leases};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document, Lease};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{customer}:{number}")]
#[document(composite(BY_AGE = state, placed_at))]
pub(crate) struct Order {
    #[document(partition_key)]
    pub(crate) customer: String,
    pub(crate) number: u64,
    #[document(index)]
    pub(crate) state: String,
    #[document(index)]
    pub(crate) placed_at: u64,
    pub(crate) parcels: u64,
    #[document(lease)]
    #[serde(default)]
    pub(crate) lease: Lease,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[document(type = "label", id = "{customer}:label:{number}")]
pub(crate) struct Label {
    #[document(partition_key)]
    pub(crate) customer: String,
    pub(crate) number: u64,
}

#[derive(Container, Clone, Debug, PartialEq)]
#[container(partition_key = "/customer")]
pub(crate) enum Shop {
    Order(Order),
    Label(Label),
}

pub(crate) type Guard = LeaseGuard<Shop, Order>;

/// A database of its own, on the emulator or on an account.
pub(crate) struct Account {
    endpoint: String,
    key: String,
    database: String,
    emulator: Option<Emulator>,
}

impl Account {
    pub(crate) async fn new() -> Self {
        let given = (
            std::env::var("COSMOS_ENDPOINT"),
            std::env::var("COSMOS_KEY"),
        );
        let (endpoint, key, emulator) = if let (Ok(endpoint), Ok(key)) = given {
            (endpoint, key, None)
        } else {
            let emulator = Emulator::builder().physical_partitions(3).start().await;
            let emulator = emulator.unwrap();
            (
                emulator.endpoint(),
                emulator.key().to_owned(),
                Some(emulator),
            )
        };
        Self {
            endpoint,
            key,
            database: format!("cdb-coordination-{}", Uuid::new_v4()),
            emulator,
        }
    }

    /// Another process's view of the container, as far as a client can tell.
    pub(crate) async fn shop(&self) -> ContainerClient<Shop> {
        self.open(self.client()).await
    }

    /// The same through a network of the test's own.
    pub(crate) async fn shop_through(&self, transport: impl Transport) -> ContainerClient<Shop> {
        let builder = CosmosClient::builder(&self.endpoint)
            .credential(MasterKey::new(&self.key).unwrap())
            .transport(transport);
        self.open(builder.build().unwrap()).await
    }

    fn client(&self) -> CosmosClient {
        CosmosClient::builder(&self.endpoint)
            .credential(MasterKey::new(&self.key).unwrap())
            .build()
            .unwrap()
    }

    async fn open(&self, client: CosmosClient) -> ContainerClient<Shop> {
        let database: DatabaseClient = client.database(&self.database);
        database
            .bootstrap("shop", Bootstrap::CreateIfMissing)
            .await
            .unwrap()
    }

    /// Name of the database.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// The emulator behind it, unless the test runs on an account, which fails when it likes.
    pub(crate) fn emulator(&self) -> Option<&Emulator> {
        self.emulator.as_ref()
    }

    /// Removes what the test left in an account.
    pub(crate) async fn end(self) {
        if self.emulator.is_none() {
            self.client()
                .database(&self.database)
                .delete()
                .await
                .unwrap();
        }
    }
}

pub(crate) fn order(customer: &str, number: u64) -> Order {
    Order {
        customer: customer.to_owned(),
        number,
        state: "open".to_owned(),
        placed_at: number,
        parcels: 0,
        lease: Lease::free(),
    }
}

/// The leases of a process of this name.
pub(crate) fn leases(shop: &ContainerClient<Shop>, holder: &str) -> Leases<Shop, Order> {
    Leases::new(shop, holder)
}

/// The order as it is stored now.
pub(crate) async fn stored(shop: &ContainerClient<Shop>, order: &Order) -> Order {
    let found = shop.latest_committed().read(&order.key()).await.unwrap();
    found.unwrap().document
}
