//! Where the suites run: on an emulator of their own, or on the account that `COSMOS_ENDPOINT` and `COSMOS_KEY` name, each
//! test in a database of its own.

use cdb_client::{CosmosClient, CosmosClientBuilder, DatabaseClient, MasterKey};
use cdb_emulator::Emulator;
use uuid::Uuid;

/// A database for one test.
pub(crate) struct Backend {
    pub(crate) endpoint: String,
    pub(crate) key: String,
    /// Name of the database.
    pub(crate) database: String,
    /// What can be told to fail and counts requests; nothing on an account.
    pub(crate) emulator: Option<Emulator>,
}

impl Backend {
    /// On an emulator, containers have so many physical partitions.
    pub(crate) async fn start(physical: u32) -> Self {
        let given = (
            std::env::var("COSMOS_ENDPOINT"),
            std::env::var("COSMOS_KEY"),
        );
        let (endpoint, key, emulator) = if let (Ok(endpoint), Ok(key)) = given {
            eprintln!(
                "on {endpoint}, which fails when it likes and does not tell what it was asked: what needs that is left out"
            );
            (endpoint, key, None)
        } else {
            let emulator = Emulator::builder().physical_partitions(physical);
            let emulator = emulator.start().await.expect("the emulator starts");
            let key = emulator.key().to_owned();
            (emulator.endpoint(), key, Some(emulator))
        };
        Self {
            endpoint,
            key,
            database: format!("cdb-coordination-{}", Uuid::new_v4()),
            emulator,
        }
    }

    /// A client to be set up, as in another process.
    pub(crate) fn builder(&self) -> CosmosClientBuilder {
        let key = MasterKey::new(&self.key).expect("a key");
        CosmosClient::builder(&self.endpoint).credential(key)
    }

    /// The database, through a client of its own.
    pub(crate) fn database(&self) -> DatabaseClient {
        let client = self.builder().build().expect("an endpoint");
        client.database(&self.database)
    }
}

impl Drop for Backend {
    /// Removes what the test has left in an account, also when it has failed.
    fn drop(&mut self) {
        if self.emulator.is_some() {
            return;
        }
        let database = self.database();
        let removal = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(database.delete())
        });
        match removal.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("database {} stays: {error}", self.database),
            Err(_) => eprintln!("database {} stays", self.database),
        }
    }
}
