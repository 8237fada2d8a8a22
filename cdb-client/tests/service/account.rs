//! Something to talk to: an account with a database for one test.

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, DatabaseClient, MasterKey};
use cdb_emulator::Emulator;
use uuid::Uuid;

use crate::shop::Shop;

/// A database of its own, on the emulator or on an account.
pub(crate) struct Account {
    pub(crate) client: CosmosClient,
    pub(crate) database: DatabaseClient,
    pub(crate) endpoint: String,
    /// Ends with this value. `None` when an account was given.
    emulator: Option<Emulator>,
}

impl Account {
    /// An account whose containers have several physical partitions, where the service lets us choose.
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

    /// A client that knows nothing of what the first one did.
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

    /// A fresh container.
    pub(crate) async fn shop(&self) -> ContainerClient<Shop> {
        self.database
            .bootstrap("shop", Bootstrap::CreateIfMissing)
            .await
            .unwrap()
    }

    /// The emulator behind it, if it is one.
    pub(crate) fn emulator(&self) -> Option<&Emulator> {
        self.emulator.as_ref()
    }

    /// Removes what the test left in an account.
    pub(crate) async fn end(self) {
        if self.emulator.is_none() {
            self.database.delete().await.unwrap();
        }
    }
}
