//! What is run: the same orchestrations for every provider.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use tokio::sync::mpsc;

/// A kind of orchestration.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub label: &'static str,
    orchestration: &'static str,
    input: &'static str,
    /// How many are run.
    pub count: usize,
    /// How many at a time.
    window: usize,
}

/// All workloads, in the order of the report.
pub const WORKLOADS: [Workload; 6] = [
    Workload { label: "hello (1 activity)", orchestration: "Chain", input: "1", count: 40, window: 10 },
    Workload { label: "chain of 20 activities", orchestration: "Chain", input: "20", count: 10, window: 5 },
    Workload { label: "fan-out 5", orchestration: "FanOut", input: "5", count: 40, window: 10 },
    Workload { label: "fan-out 50", orchestration: "FanOut", input: "50", count: 10, window: 5 },
    Workload { label: "5 sub-orchestrations", orchestration: "Parent", input: "5", count: 20, window: 5 },
    Workload { label: "20 × continue-as-new", orchestration: "Again", input: "20", count: 10, window: 5 },
];

/// Time from start to the last statement of each orchestration, shortest first.
pub async fn run(provider: Arc<dyn Provider>, workload: Workload) -> Vec<Duration> {
    let (done, mut finished) = mpsc::unbounded_channel();
    let options = RuntimeOptions {
        orchestration_concurrency: 2,
        worker_concurrency: 2,
        ..RuntimeOptions::default()
    };
    let runtime =
        Runtime::start_with_options(provider.clone(), activities(), orchestrations(done), options).await;
    let client = Client::new(provider);
    let started: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let mut times = Vec::new();
    let mut next = 0;
    while times.len() < workload.count {
        while next < workload.count && next - times.len() < workload.window {
            started.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            let instance = format!("{}-{next}", workload.orchestration);
            client
                .start_orchestration(&instance, workload.orchestration, workload.input)
                .await
                .expect("an orchestration starts");
            next += 1;
        }
        let instance: String = tokio::time::timeout(Duration::from_secs(120), finished.recv())
            .await
            .expect("an orchestration ends within two minutes")
            .expect("the runtime lives");
        let Some(number) = instance.rsplit('-').next().and_then(|number| number.parse::<usize>().ok()) else {
            continue;
        };
        times.push(started.lock().unwrap_or_else(PoisonError::into_inner)[number].elapsed());
    }
    // The last turns are still being committed.
    tokio::time::sleep(Duration::from_millis(300)).await;
    runtime.shutdown(Some(1_000)).await;
    times.sort();
    times
}

/// A runtime that has nothing to do.
pub async fn idle(provider: Arc<dyn Provider>, time: Duration) {
    let (done, _finished) = mpsc::unbounded_channel();
    let options = RuntimeOptions {
        orchestration_concurrency: 2,
        worker_concurrency: 2,
        ..RuntimeOptions::default()
    };
    let runtime =
        Runtime::start_with_options(provider, activities(), orchestrations(done), options).await;
    tokio::time::sleep(time).await;
    runtime.shutdown(Some(1_000)).await;
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, input: String| async move { Ok(input) })
        .build()
}

fn orchestrations(done: mpsc::UnboundedSender<String>) -> OrchestrationRegistry {
    let (chain, fan, parent, again) = (done.clone(), done.clone(), done.clone(), done);
    OrchestrationRegistry::builder()
        .register("Chain", move |ctx: OrchestrationContext, input: String| {
            let done = chain.clone();
            async move {
                for step in 0..number(&input)? {
                    ctx.schedule_activity("Echo", step.to_string()).await?;
                }
                finish(&ctx, &done)
            }
        })
        .register("FanOut", move |ctx: OrchestrationContext, input: String| {
            let done = fan.clone();
            async move {
                let steps = (0..number(&input)?).map(|step| ctx.schedule_activity("Echo", step.to_string()));
                ctx.join(steps.collect()).await;
                finish(&ctx, &done)
            }
        })
        .register("Parent", move |ctx: OrchestrationContext, input: String| {
            let done = parent.clone();
            async move {
                let steps =
                    (0..number(&input)?).map(|step| ctx.schedule_sub_orchestration("Child", step.to_string()));
                for result in ctx.join(steps.collect()).await {
                    result?;
                }
                finish(&ctx, &done)
            }
        })
        .register("Child", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).await
        })
        .register("Again", move |ctx: OrchestrationContext, input: String| {
            let done = again.clone();
            async move {
                let left = number(&input)?;
                if left > 0 {
                    return ctx.continue_as_new((left - 1).to_string()).await;
                }
                finish(&ctx, &done)
            }
        })
        .build()
}

fn number(input: &str) -> Result<u32, String> {
    input.parse().map_err(|_| format!("`{input}` is no number"))
}

/// Reached once, by the turn that ends the orchestration; no client polls, so no request is counted for it.
fn finish(ctx: &OrchestrationContext, done: &mpsc::UnboundedSender<String>) -> Result<String, String> {
    // Nobody listens any more when the benchmark is over.
    let _unheard = done.send(ctx.instance_id());
    Ok("done".to_owned())
}
