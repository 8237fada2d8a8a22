//! An account with a database for one test: the emulator, or a real account.

#[macro_use]
#[path = "../../../tests/support/ok.rs"]
mod ok;
#[macro_use]
#[path = "../../../tests/support/or_skip.rs"]
mod or_skip;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, DatabaseClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::Container;
use uuid::Uuid;

use crate::removal::remove;
use crate::shop::Shop;

/// A client and a new database.
pub(crate) struct Account {
    pub(crate) client: CosmosClient,
    pub(crate) database: DatabaseClient,
    pub(crate) endpoint: String,
    /// Stops when dropped. `None` on a real account.
    emulator: Option<Emulator>,
}

impl Account {
    /// An account whose containers have several physical partitions, if it is the emulator.
    pub(crate) async fn new() -> Self {
        let given = (
            std::env::var("COSMOS_ENDPOINT"),
            std::env::var("COSMOS_KEY"),
        );
        let (endpoint, key, emulator) = if let (Ok(endpoint), Ok(key)) = given {
            (endpoint, key, None)
        } else {
            let emulator = Emulator::builder()
                .physical_partitions(4)
                .version_minutes(60)
                .start()
                .await
                .unwrap();
            let (endpoint, key) = (emulator.endpoint(), emulator.key().to_owned());
            (endpoint, key, Some(emulator))
        };
        let client = CosmosClient::builder(&endpoint)
            .credential(MasterKey::new(&key).unwrap())
            .build()
            .unwrap();
        let database = client.database(format!("cdb-client-{}", Uuid::new_v4()));
        Self {
            client,
            database,
            endpoint,
            emulator,
        }
    }

    /// A new account with a container.
    pub(crate) async fn with_shop() -> (Self, ContainerClient<Shop>) {
        let account = Self::new().await;
        let shop = account.shop().await;
        (account, shop)
    }

    /// A client that does not share state with the first one.
    pub(crate) fn other_client(&self) -> CosmosClient {
        let key = match &self.emulator {
            Some(emulator) => emulator.key().to_owned(),
            None => std::env::var("COSMOS_KEY").unwrap(),
        };
        CosmosClient::builder(&self.endpoint)
            .credential(MasterKey::new(&key).unwrap())
            .build()
            .unwrap()
    }

    /// A new container.
    pub(crate) async fn shop(&self) -> ContainerClient<Shop> {
        self.open("shop").await
    }

    /// A new container with this name.
    pub(crate) async fn open<C: Container>(&self, name: &str) -> ContainerClient<C> {
        let opened = self.database.bootstrap(name, Bootstrap::CreateIfMissing);
        opened.await.unwrap()
    }

    /// The emulator; `None` on a real account.
    pub(crate) fn emulator(&self) -> Option<&Emulator> {
        self.emulator.as_ref()
    }
}

impl Drop for Account {
    /// Deletes the database of the test on an account, also after a failure.
    fn drop(&mut self) {
        if self.emulator.is_none() {
            // Through connections of its own: those of the test wait for its runtime, which waits here.
            remove(self.other_client().database(self.database.name()));
        }
    }
}
