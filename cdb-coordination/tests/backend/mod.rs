//! Where the suites run: on an emulator of their own, or on the account that `COSMOS_ENDPOINT` and `COSMOS_KEY` name, each
//! test in a database of its own.
//!
//! With the emulator, time is simulated in a test that pauses Tokio's clock: leases do not end because the machine is slow.

use cdb_client::{CosmosClient, CosmosClientBuilder, DatabaseClient, MasterKey, SimulatedTime};
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
    /// The network of a test whose clock is paused.
    pub(crate) time: Option<SimulatedTime>,
}

impl Backend {
    /// On an emulator, containers have so many physical partitions. A test that pauses Tokio's clock gives its `time`; on an
    /// account, the clock is resumed.
    pub(crate) async fn start(physical: u32, time: Option<SimulatedTime>) -> Self {
        if let Some(account) = Self::on_account() {
            if time.is_some() {
                tokio::time::resume();
            }
            return account;
        }
        let emulator = Emulator::builder().physical_partitions(physical).start();
        let emulator = match &time {
            Some(time) => time.in_real_time(emulator).await,
            None => emulator.await,
        };
        let emulator = emulator.expect("the emulator starts");
        Self {
            endpoint: emulator.endpoint(),
            key: emulator.key().to_owned(),
            database: "cdb-coordination".to_owned(),
            emulator: Some(emulator),
            time,
        }
    }

    fn on_account() -> Option<Self> {
        let endpoint = std::env::var("COSMOS_ENDPOINT").ok()?;
        let key = std::env::var("COSMOS_KEY").ok()?;
        eprintln!(
            "on {endpoint}, which fails when it likes and does not tell what it was asked: what needs that is left out"
        );
        Some(Self {
            endpoint,
            key,
            database: format!("cdb-coordination-{}", Uuid::new_v4()),
            emulator: None,
            time: None,
        })
    }

    /// A client to be set up, as in another process.
    pub(crate) fn builder(&self) -> CosmosClientBuilder {
        let key = MasterKey::new(&self.key).expect("a key");
        let builder = CosmosClient::builder(&self.endpoint).credential(key);
        match &self.time {
            Some(time) => builder.transport(time.clone()).clock_of(time),
            None => builder,
        }
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
