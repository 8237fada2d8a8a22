//! Stores waiting instances in bulk. Two instances run until they wait, one for an event and one
//! for a timer. Their documents are then stored again under other ids, so the stored form is the
//! provider's own.

use std::time::Duration;

use cdb_bench_child::{Job, Order, Start, Store};
use cdb_provider::client::ContainerClient;
use cdb_provider::documents::{Durable, dispatch_slot};
use cdb_provider::model::operation::BulkBatch;
use cdb_provider::model::{Document as _, Query, Stored};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::process::Process;

/// Instances that are stored at a time.
const PORTION: usize = 500;
/// The time for the commit of the waiting turn.
const COMMIT: Duration = Duration::from_millis(500);

/// The documents of a waiting instance.
#[derive(Debug)]
pub struct Seed {
    container: ContainerClient<Durable>,
    samples: Vec<(String, Vec<Stored<Durable>>)>,
    stored: usize,
}

impl Seed {
    /// Runs one instance of each kind until it waits.
    pub async fn new(store: &Store) -> Result<Self, String> {
        let mut process = Process::start(&Job {
            store: store.clone(),
            dispatchers: 1,
            members: false,
        })
        .await?;
        for (instance, orchestration) in [("waiting-event", "Wait"), ("waiting-timer", "Sleep")] {
            let start = Start {
                instance: instance.to_owned(),
                orchestration: orchestration.to_owned(),
                input: String::new(),
            };
            process.call(Order::Start(start)).await?;
            process.reached(Duration::from_secs(10)).await?;
        }
        tokio::time::sleep(COMMIT).await;
        process.stop().await?;
        let container = open(store).await?;
        let mut samples = Vec::new();
        for id in ["waiting-event", "waiting-timer"] {
            let query = Query::<Durable>::in_partition(id);
            let documents = container
                .query(query)
                .all()
                .await
                .map_err(|error| error.to_string())?;
            samples.push((id.to_owned(), documents));
        }
        Ok(Self {
            container,
            samples,
            stored: 0,
        })
    }

    /// Stores more copies until there are `count`.
    pub async fn grow_to(&mut self, count: usize) -> Result<(), String> {
        while self.stored < count {
            let upto = count.min(self.stored + PORTION);
            let mut bulk = BulkBatch::new();
            for number in self.stored..upto {
                let (id, documents) = &self.samples[number % self.samples.len()];
                for document in documents {
                    add(&mut bulk, &document.document, id, &format!("{id}-{number}"))?;
                }
            }
            for result in self.container.execute_bulk(&bulk).await {
                result.map_err(|error| error.to_string())?;
            }
            self.stored = upto;
        }
        Ok(())
    }
}

/// Returns only the container: the provider and its polls end here.
async fn open(store: &Store) -> Result<ContainerClient<Durable>, String> {
    let config = CosmosDBProviderConfig {
        endpoint: store.endpoint.clone(),
        key: store.key.clone(),
        database: crate::DATABASE.to_owned(),
        ..Default::default()
    };
    let provider = CosmosDBProvider::new_with_config(config)
        .await
        .map_err(|error| error.to_string())?;
    Ok(provider.container().clone())
}

fn add(
    bulk: &mut BulkBatch<Durable>,
    document: &Durable,
    from: &str,
    to: &str,
) -> Result<(), String> {
    let added = match document {
        Durable::Instance(instance) => bulk.add(renamed(instance, from, to)?.create()),
        Durable::History(segment) => bulk.add(renamed(segment, from, to)?.create()),
        Durable::OrchestratorItem(item) => {
            let mut item = renamed(item, from, to)?;
            item.dispatch_slot = dispatch_slot(to);
            bulk.add(item.create())
        }
        other => {
            return Err(format!(
                "an instance that waits has a document that is not expected: {other:?}"
            ));
        }
    };
    added.map(|_| ()).map_err(|error| error.to_string())
}

/// Replaces the instance id everywhere in a document.
fn renamed<D: Serialize + DeserializeOwned>(
    document: &D,
    from: &str,
    to: &str,
) -> Result<D, String> {
    let json = serde_json::to_string(document).map_err(|error| error.to_string())?;
    serde_json::from_str(&json.replace(from, to)).map_err(|error| error.to_string())
}
