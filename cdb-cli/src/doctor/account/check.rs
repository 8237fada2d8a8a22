//! The containers of a run, and what several questions need.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cdb_client::database::{BootstrapConfig, Throughput};
use cdb_client::throughput::OperationUsage;
use cdb_client::{Bootstrap, ContainerClient, CosmosClient, DatabaseClient};
use cdb_model::{Container, Document as _};
use cdb_provider::documents::Durable;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::doctor::account::answer::Failure;
use crate::doctor::account::raw::{Raw, Reply};
use crate::doctor::account::samples::{Checked, Sample, Searched};
use crate::doctor::account::subject::Subject;

const DATABASE: &str = "cdb-account-check";
/// A physical partition has at most 10,000 RU/s, so the container has two. Source:
/// partitioning-overview.md, "Physical partitions".
const THROUGHPUT: u32 = 11_000;
/// The number of samples in different logical partitions.
pub(crate) const SPREAD: u32 = 64;
/// The number of groups of these samples.
pub(crate) const GROUPS: u32 = 5;

/// A run.
pub(crate) struct Check {
    pub(crate) subject: Subject,
    pub(crate) database: DatabaseClient,
    pub(crate) name: String,
    container: Result<ContainerClient<Checked>, String>,
    spread: OnceCell<Vec<Sample>>,
    searched: OnceCell<Result<ContainerClient<Searched>, String>>,
    remaining: Mutex<Vec<String>>,
}

impl Check {
    /// Creates the container. A failure is the answer to each question that needs it.
    pub(crate) async fn open(subject: &Subject) -> Self {
        let database = subject.client.database(DATABASE);
        let name = format!("account-check-{}", uuid::Uuid::new_v4());
        let config = config().with_throughput(Throughput::Manual(THROUGHPUT));
        let container = database.bootstrap(&name, config).await;
        Self {
            subject: subject.clone(),
            container: container.map_err(|error| error.to_string()),
            database,
            name,
            spread: OnceCell::new(),
            searched: OnceCell::new(),
            remaining: Mutex::default(),
        }
    }

    /// Deletes the containers. Returns why some remain: they cost money.
    pub(crate) async fn clean_up(self) -> Vec<String> {
        if let Ok(container) = &self.container {
            self.delete(container).await;
        }
        if let Some(Ok(searched)) = self.searched.get() {
            self.delete(searched).await;
        }
        self.remaining
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes a container, or notes that it remains.
    pub(crate) async fn delete<C: Container>(&self, container: &ContainerClient<C>) {
        if let Err(error) = container.delete_container().await {
            let mut remaining = self
                .remaining
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            remaining.push(format!("{}: {error}", container.name()));
        }
    }

    pub(crate) fn client(&self) -> &CosmosClient {
        &self.subject.client
    }

    pub(crate) fn container(&self) -> Result<&ContainerClient<Checked>, Failure> {
        self.container
            .as_ref()
            .map_err(|error| error.clone().into())
    }

    /// The container as the provider sees it.
    pub(crate) fn durable(&self) -> Result<ContainerClient<Durable>, Failure> {
        Ok(self.container()?.view())
    }

    /// The same container through another client.
    pub(crate) fn through(&self, client: &CosmosClient) -> ContainerClient<Checked> {
        client.database(DATABASE).container(&self.name)
    }

    pub(crate) async fn send(&self, request: &Raw<'_>) -> Result<Reply, Failure> {
        request.send(self.container()?).await
    }

    /// Writes an item as it is, without the rules of the model.
    pub(crate) async fn upsert(&self, partition: &str, item: &Value) -> Result<Reply, Failure> {
        let request = Raw::new(
            cdb_client::transport::http::Method::POST,
            cdb_client::write::RawTarget::Items,
        );
        let request = request.with("x-ms-documentdb-is-upsert", "True");
        self.send(&request.in_partition(partition).json(item.clone()))
            .await
    }

    /// Samples in many logical partitions. The first call writes them.
    pub(crate) async fn spread(&self) -> Result<&[Sample], Failure> {
        let container = self.container()?;
        let samples = self.spread.get_or_try_init(async || {
            let samples: Vec<Sample> = (0..SPREAD).map(spread_sample).collect();
            for sample in &samples {
                container.run(sample.create()).await?;
            }
            Ok::<_, Failure>(samples)
        });
        Ok(samples.await?)
    }

    /// The container for searches, or why the account has none.
    pub(crate) async fn searched(&self) -> &Result<ContainerClient<Searched>, String> {
        let open = async || {
            let name = format!("{}-search", self.name);
            let opened = self.database.bootstrap(&name, config()).await;
            opened.map_err(|error| error.to_string())
        };
        self.searched.get_or_init(open).await
    }

    /// Returns the requests and request units since `before`.
    pub(crate) fn spent(&self, before: OperationUsage) -> (u64, f64) {
        let now = self.client().usage().total();
        (now.requests - before.requests, now.charge - before.charge)
    }
}

/// How to open a container, with the least throughput. A question reports several write regions.
pub(crate) fn config() -> BootstrapConfig {
    BootstrapConfig::from(Bootstrap::CreateIfMissing).with_several_write_regions(true)
}

fn spread_sample(number: u32) -> Sample {
    Sample {
        group: format!("group-{}", number % GROUPS),
        amount: number,
        ..Sample::new(&format!("spread-{number}"), "spread")
    }
}

/// Waits; the clock of a simulated test jumps.
pub(crate) async fn wait(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
