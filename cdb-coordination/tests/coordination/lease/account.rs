//! A container of orders for one test, and its clients.

use cdb_client::transport::{SimulatedTime, Transport};
use cdb_client::{Bootstrap, ContainerClient, DatabaseClient};
use cdb_coordination::Leases;
use cdb_coordination::lease::LeaseGuard;
use cdb_emulator::Emulator;
use cdb_model::operation::Lease;
use cdb_model::{Container, Document};
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
pub(crate) enum Shop {
    Order(Order),
    Label(Label),
}

pub(crate) type Guard = LeaseGuard<Shop, Order>;

/// A container on the emulator or on an account.
pub(crate) struct Account(Backend);

impl Account {
    pub(crate) async fn new() -> Self {
        Self(Backend::start(3, Some(SimulatedTime::new())).await)
    }

    /// A new account with the container.
    pub(crate) async fn with_shop() -> (Self, ContainerClient<Shop>) {
        let account = Self::new().await;
        let shop = account.shop().await;
        (account, shop)
    }

    /// The container through a new client, as another process sees it.
    pub(crate) async fn shop(&self) -> ContainerClient<Shop> {
        Self::open(&self.0.database()).await
    }

    /// The container through the given network.
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

    /// The container with other document types.
    pub(crate) fn container<C: Container>(&self) -> ContainerClient<C> {
        self.0.database().container("shop")
    }

    /// The database's name.
    pub(crate) fn database(&self) -> &str {
        &self.0.database
    }

    /// The emulator; `None` on an account.
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

/// A container with one order.
pub(crate) async fn with_order() -> (Account, ContainerClient<Shop>, Order) {
    let (account, shop) = Account::with_shop().await;
    let order = order("ann", 1);
    shop.run(order.create()).await.unwrap();
    (account, shop, order)
}

/// The leases of a process with this name.
pub(crate) fn leases(shop: &ContainerClient<Shop>, holder: &str) -> Leases<Shop, Order> {
    Leases::new(shop, holder)
}

/// Reads the stored order.
pub(crate) async fn stored(shop: &ContainerClient<Shop>, order: &Order) -> Order {
    let found = shop.latest_committed().read(&order.key()).await.unwrap();
    found.unwrap().document
}
