//! A container of orders for one test, and clients on it.

use cdb_client::{Bootstrap, ContainerClient, DatabaseClient, SimulatedTime, Transport};
use cdb_coordination::{LeaseGuard, Leases};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document, Lease};
use serde::{Deserialize, Serialize};

use crate::backend::Backend;

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

/// A container of its own, on the emulator or on an account.
pub(crate) struct Account(Backend);

impl Account {
    pub(crate) async fn new() -> Self {
        Self(Backend::start(3, Some(SimulatedTime::new())).await)
    }

    /// Another process's view of the container, as far as a client can tell.
    pub(crate) async fn shop(&self) -> ContainerClient<Shop> {
        Self::open(&self.0.database()).await
    }

    /// The same through a network of the test's own.
    pub(crate) async fn shop_through<T: Transport>(
        &self,
        transport: impl FnOnce(Option<SimulatedTime>) -> T,
    ) -> ContainerClient<Shop> {
        let builder = self.0.builder();
        let client = builder.transport(transport(self.0.time.clone())).build();
        let client = client.unwrap();
        Self::open(&client.database(&self.0.database)).await
    }

    async fn open(database: &DatabaseClient) -> ContainerClient<Shop> {
        let shop = database.bootstrap("shop", Bootstrap::CreateIfMissing);
        shop.await.unwrap()
    }

    /// The same container, as a program sees it that knows its documents otherwise.
    pub(crate) fn container<C: Container>(&self) -> ContainerClient<C> {
        self.0.database().container("shop")
    }

    /// Name of the database.
    pub(crate) fn database(&self) -> &str {
        &self.0.database
    }

    /// The emulator behind it, unless the test runs on an account, which fails when it likes.
    pub(crate) fn emulator(&self) -> Option<&Emulator> {
        self.0.emulator.as_ref()
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
