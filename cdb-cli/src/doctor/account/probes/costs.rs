//! Times and costs.

use std::sync::Arc;
use std::time::Duration;

use cdb_model::{Batch, Document as _, Patch};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use tokio::time::Instant;

use crate::doctor::account::answer::{Answer, Outcome};
use crate::doctor::account::check::Check;
use crate::doctor::account::samples::{Checked, Sample};

/// The requests of each kind whose latency is measured.
const MEASURED: u32 = 20;
/// The orchestrations whose cost is measured.
const HELLOS: u32 = 20;

pub(super) async fn latencies(check: &Check) -> Outcome {
    let container = check.container()?;
    let sample = Sample::new("latency", "start");
    container.run(sample.create()).await?;
    let key = sample.key();
    let patch = Patch::<Sample>::new().set(Sample::UNTIL, container.now());
    let (mut reads, mut patches, mut batches) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..MEASURED {
        let begun = Instant::now();
        container.read(&key).await?;
        reads.push(begun.elapsed());
        let begun = Instant::now();
        container.run(patch.at(&key)).await?;
        patches.push(begun.elapsed());
        let mut batch = Batch::<Checked>::new("latency");
        for name in ["a", "b", "c"] {
            batch.add(Sample::new("latency", &format!("{name}-{number}")).create())?;
        }
        let begun = Instant::now();
        container.execute(&batch).await?;
        batches.push(begun.elapsed());
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1000.0
    };
    let (read, patch, batch) = (median(reads), median(patches), median(batches));
    Ok(Answer::Yes(format!(
        "medians {read:.1}, {patch:.1} and {batch:.1} ms"
    )))
}

/// Runs orchestrations with one activity each.
pub(super) async fn hello(check: &Check) -> Outcome {
    let config = CosmosDBProviderConfig::default();
    let store = Arc::new(CosmosDBProvider::on(check.durable()?, &config).await?);
    let activities = ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello, {name}!"))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "Hello",
            |ctx: OrchestrationContext, name: String| async move {
                ctx.schedule_activity("Greet", name).await
            },
        )
        .build();
    let mut options = RuntimeOptions::default();
    "error".clone_into(&mut options.observability.log_level);
    let runtime =
        Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
    let client = Client::new(store.clone());
    let before = check.client().usage().total();
    for number in 0..HELLOS {
        let instance = format!("hello-{number}");
        client
            .start_orchestration(&instance, "Hello", "Ada")
            .await?;
        let timeout = Duration::from_secs(60);
        client.wait_for_orchestration(&instance, timeout).await?;
    }
    let (requests, charge) = check.spent(before);
    runtime.shutdown(None).await;
    let count = f64::from(HELLOS);
    let requests = f64::from(u32::try_from(requests)?) / count;
    Ok(Answer::Yes(format!(
        "{requests:.1} requests and {:.0} RU each, waiting included",
        charge / count
    )))
}
