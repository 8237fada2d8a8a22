//! The effects of a transactional activity take place once, with the end of the activity, or not at
//! all.

mod conditions;
mod faults;
mod limits;
mod locks;
mod messages;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Container, Document, Query};
use cdb_provider::coordination::MessageDocument;
use cdb_provider::documents::Durable;
use cdb_provider::{ActivityError, Effects};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use cdb_tests::Backend;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use serde::{Deserialize, Serialize};

use crate::harness::{end_of, long_locks};

/// The number of effects in an instance's partition. A second effect changes the number, and a
/// created document could not show it.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "counter", id = "{instance_id}:counter")]
struct Counter {
    #[document(partition_key)]
    instance_id: String,
    #[document(index)]
    effects: i64,
}

/// A receipt. Each run of a body gives it another number.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "receipt", id = "{instance_id}:receipt:{number}")]
struct Receipt {
    #[document(partition_key)]
    instance_id: String,
    number: String,
    #[document(unindexed)]
    text: String,
}

#[expect(clippy::large_enum_variant, reason = "tests handle few rows")]
#[derive(Container, Clone, Debug)]
enum Shop {
    #[container(extends)]
    Durable(Durable),
    Counter(Counter),
    Receipt(Receipt),
    Message(MessageDocument<Shop>),
}

/// A store of the shop, and the runtimes that work on it.
struct Env {
    backend: Backend,
    provider: CosmosDBProvider,
    shop: ContainerClient<Shop>,
    client: Client,
    runtimes: Vec<Arc<Runtime>>,
}

impl Env {
    async fn start() -> Self {
        Self::on(Backend::start().await).await
    }

    async fn with_config(change: impl FnOnce(&mut CosmosDBProviderConfig)) -> Self {
        Self::on(Backend::start_with(change).await).await
    }

    async fn on(backend: Backend) -> Self {
        let (provider, shop) = backend.open_as(|_| {}).await;
        Self {
            client: Client::new(Arc::new(provider.clone())),
            backend,
            provider,
            shop,
            runtimes: Vec::new(),
        }
    }

    /// Starts a runtime whose only activity is `Act`, made for its provider.
    async fn join(
        &mut self,
        options: RuntimeOptions,
        activities: impl FnOnce(&CosmosDBProvider, &ContainerClient<Shop>) -> ActivityRegistry,
    ) {
        let (provider, shop) = self.backend.open_as(|_| {}).await;
        let activities = activities(&provider, &shop);
        let runtime =
            Runtime::start_with_options(Arc::new(provider), activities, orchestrations(), options);
        self.runtimes.push(runtime.await);
    }

    /// Starts a runtime whose activity may only be fetched once: a second attempt fails it.
    async fn join_with_one_attempt<F, Fut>(&mut self, body: F)
    where
        F: Fn(ActivityContext, Effects<Shop>, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, ActivityError>> + Send + 'static,
    {
        let options = RuntimeOptions {
            max_attempts: 1,
            ..long_locks()
        };
        self.join(options, |provider, shop| registry(provider, shop, body))
            .await;
    }

    /// Runs the activity once, and returns the output or the failure.
    async fn run(&self, instance: &str, input: &str) -> Result<String, String> {
        self.begin(instance, input).await;
        self.end_of(instance).await
    }

    async fn begin(&self, instance: &str, input: &str) {
        ok!(self.client.start_orchestration(instance, "Run", input));
    }

    async fn end_of(&self, instance: &str) -> Result<String, String> {
        match end_of(&self.client, instance).await {
            OrchestrationStatus::Completed { output, .. } => Ok(output),
            OrchestrationStatus::Failed { details, .. } => Err(details.display_message()),
            other => panic!("{instance} has not ended: {other:?}"),
        }
    }

    /// Creates the counter of an instance.
    async fn create_counter(&self, instance: &str) {
        let counter = Counter {
            instance_id: instance.to_owned(),
            effects: 0,
        };
        ok!(self.shop.run(counter.create()));
    }

    /// Returns the number of effects that an instance's counter shows.
    async fn counted(&self, instance: &str) -> i64 {
        let counter = self.shop.read(&CounterKey::new(instance)).await;
        let counter = counter.expect("it can be read").expect("it exists");
        counter.document.effects
    }

    async fn receipts(&self, instance: &str) -> Vec<Receipt> {
        let query = Query::<Receipt>::in_partition(instance);
        let found = self.shop.query(query).all().await;
        let found = found.expect("the receipts can be read").into_iter();
        found.map(|stored| stored.document).collect()
    }

    /// Checks the effects of an instance.
    async fn has_effects(&self, instance: &str, expected: i64) {
        assert_eq!(self.counted(instance).await, expected, "{instance}");
        let receipts = self.receipts(instance).await.len();
        assert_eq!(i64::try_from(receipts), Ok(expected), "{instance}");
    }

    async fn stop(self) {
        for runtime in self.runtimes {
            runtime.shutdown(None).await;
        }
        self.backend.stop().await;
    }
}

/// Returns the registry with the transactional activity `Act`.
fn registry<F, Fut>(
    provider: &CosmosDBProvider,
    shop: &ContainerClient<Shop>,
    body: F,
) -> ActivityRegistry
where
    F: Fn(ActivityContext, Effects<Shop>, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, ActivityError>> + Send + 'static,
{
    let act = provider.transactional(shop, body);
    ActivityRegistry::builder().register("Act", act).build()
}

/// `Run` runs the activity once; `Many` runs as many at once as its input says.
fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Run", async |ctx: OrchestrationContext, input: String| {
            ctx.schedule_activity("Act", input).await
        })
        .register("Many", async |ctx: OrchestrationContext, count: String| {
            let count: usize = count.parse().map_err(|_| format!("`{count}`"))?;
            let all = (0..count).map(|_| ctx.schedule_activity("Act", ""));
            for ended in ctx.join(all.collect()).await {
                ended?;
            }
            Ok(count.to_string())
        })
        .build()
}

/// Counts an effect, and writes a receipt with a number of its own.
async fn act<M>(
    ctx: ActivityContext,
    tx: Effects<Shop, M>,
    text: String,
) -> Result<String, ActivityError> {
    let receipt = receipt(ctx.instance_id(), text);
    tx.add(
        CounterKey::new(ctx.instance_id())
            .patch()
            .incr(Counter::EFFECTS, 1),
    )?;
    tx.add(receipt.create())?;
    Ok(receipt.number)
}

fn receipt(instance_id: &str, text: String) -> Receipt {
    Receipt {
        instance_id: instance_id.to_owned(),
        number: uuid::Uuid::new_v4().to_string(),
        text,
    }
}

/// Counts the runs of a body.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    /// Counts a run and returns its number, from 1.
    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Options of a runtime whose locks are taken over soon, and whose activities may fail often.
fn short_locks() -> RuntimeOptions {
    RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_secs(5),
        worker_lock_timeout: Duration::from_secs(5),
        max_attempts: 10_000,
        ..RuntimeOptions::default()
    }
}
