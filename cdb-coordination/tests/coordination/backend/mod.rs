//! The backend of the tests: an emulator per test, or the account that `COSMOS_ENDPOINT` and
//! `COSMOS_KEY` name, with a database per test.
//!
//! With the emulator, a test that pauses Tokio's clock runs in simulated time, so that no lease
//! expires on a slow machine.

#[macro_use]
#[path = "../../../../tests/support/ok.rs"]
mod ok;
#[macro_use]
#[path = "../../../../tests/support/or_skip.rs"]
mod or_skip;

mod account_clock;
mod removal;

use cdb_client::account::CosmosClientBuilder;
use cdb_client::transport::SimulatedTime;
use cdb_client::{CosmosClient, DatabaseClient, MasterKey};
use cdb_emulator::Emulator;
use uuid::Uuid;

/// A database for one test.
pub(crate) struct Backend {
    pub(crate) endpoint: String,
    pub(crate) key: String,
    /// The database's name.
    pub(crate) database: String,
    /// The emulator, which injects faults and counts requests; `None` on an account.
    pub(crate) emulator: Option<Emulator>,
    /// The simulated network of a test with a paused clock.
    pub(crate) time: Option<SimulatedTime>,
}

impl Backend {
    /// Starts an emulator whose containers have `physical` partitions, or connects to the account.
    /// A test with a paused clock passes its `time`; on an account, the clock is resumed, unless
    /// the account takes requests of any date.
    pub(crate) async fn start(physical: u32, time: Option<SimulatedTime>) -> Self {
        if let Some(mut account) = Self::on_account() {
            account.time = time.and_then(|_| account_clock::simulated_or_resumed());
            return account;
        }
        let emulator = Emulator::builder().physical_partitions(physical);
        let emulator = emulator.version_minutes(60);
        let emulator = match &time {
            Some(time) => {
                let emulator = emulator.clock(time.clock()).start();
                time.in_real_time(emulator).await
            }
            None => emulator.start().await,
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
            "on {endpoint}, which injects no faults and counts no requests: tests that need them are skipped"
        );
        Some(Self {
            endpoint,
            key,
            database: format!("cdb-coordination-{}", Uuid::new_v4()),
            emulator: None,
            time: None,
        })
    }

    /// A builder of a client, as in another process.
    pub(crate) fn builder(&self) -> CosmosClientBuilder {
        let key = MasterKey::new(&self.key).expect("a key");
        let builder = CosmosClient::builder(&self.endpoint).credential(key);
        match &self.time {
            Some(time) => builder.transport(time.clone()).clock_of(time),
            None => builder,
        }
    }

    /// The database, through a new client.
    pub(crate) fn database(&self) -> DatabaseClient {
        let client = self.builder().build().expect("an endpoint");
        client.database(&self.database)
    }
}

impl Drop for Backend {
    /// Deletes the database of the test on an account, also after a failure.
    fn drop(&mut self) {
        if self.emulator.is_some() {
            return;
        }
        removal::remove(self.database());
    }
}
