//! The business documents: effects of activities outside their orchestration.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, Error, MasterKey};
use cdb_model::{Container, Document, Query, Timestamp};
use serde::{Deserialize, Serialize};

use crate::runtime::DATABASE;

/// One booking. Its id is that of its step, so an activity that runs twice books once.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "entry", id = "{instance_id}:entry:{step}")]
pub struct Entry {
    /// The orchestration that booked.
    #[document(partition_key)]
    pub instance_id: String,
    /// The step.
    pub step: String,
    /// The amount.
    pub amount: i64,
    /// The time, by the service's clock.
    pub at: Timestamp,
}

/// The container of the bookings.
#[derive(Container, Clone, Debug)]
pub enum Books {
    /// A booking.
    Entry(Entry),
}

/// The bookings of one store.
#[derive(Clone, Debug)]
pub struct Ledger(ContainerClient<Books>);

/// Bookings by instance and step.
pub type Booked = BTreeMap<String, BTreeMap<String, Entry>>;

impl Ledger {
    /// Opens the ledger with the key of an account, and creates it if it is missing.
    pub(crate) async fn open(endpoint: &str, key: &str) -> Result<Self, Error> {
        let client = CosmosClient::builder(endpoint)
            .credential(MasterKey::new(key)?)
            .build()?;
        Self::on(&client).await
    }

    /// Opens the ledger, and creates it if it is missing.
    ///
    /// # Errors
    /// When the container cannot be opened.
    pub async fn on(client: &CosmosClient) -> Result<Self, Error> {
        let database = client.database(DATABASE);
        let container = database.bootstrap("ledger", Bootstrap::CreateIfMissing);
        container.await.map(Self)
    }

    /// The time, by the service's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// Books a step and retries until it succeeds.
    pub(crate) async fn book(&self, instance_id: &str, step: &str, amount: i64) {
        loop {
            let entry = Entry {
                instance_id: instance_id.to_owned(),
                step: step.to_owned(),
                amount,
                at: self.now(),
            };
            if self.0.create_if_missing(&entry).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns all bookings.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn read(&self) -> Result<Booked, Error> {
        let entries = self.0.query(Query::<Entry>::across_partitions()).all();
        let mut booked = Booked::new();
        for entry in entries.await? {
            let entry = entry.document;
            let steps = booked.entry(entry.instance_id.clone()).or_default();
            steps.insert(entry.step.clone(), entry);
        }
        Ok(booked)
    }
}
