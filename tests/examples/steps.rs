//! What a step of an orchestration costs, in simulated time with a round trip of 3 ms: requests, request units,
//! and time, whatever the speed of the machine. Names select workloads; `--stored` stores all messages first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cdb_client::transport::{HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError};
use cdb_provider::{CosmosDBProviderConfig, HandOver};
use cdb_tests::Backend;
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::Instant;

const ROUND_TRIP: Duration = Duration::from_millis(3);
/// The longest orchestration.
const LONGEST: Duration = Duration::from_secs(600);

/// How often the end of an orchestration is looked for, by a process that is not measured.
const LOOK: Duration = Duration::from_micros(500);

/// What the measured process has spent.
#[derive(Debug, Default)]
struct Spent {
    requests: u64,
    charge: f64,
}

/// Delays each request of a process, and counts it.
#[derive(Debug)]
struct Distant(SimulatedTime, Arc<Mutex<Spent>>);

#[async_trait::async_trait]
impl Transport for Distant {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        tokio::time::sleep(ROUND_TRIP).await;
        let answer = self.0.send(request).await?;
        let charge = answer.headers.get("x-ms-request-charge");
        let charge = charge.and_then(|charge| charge.to_str().ok()?.parse::<f64>().ok());
        let mut spent = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        spent.requests += 1;
        spent.charge += charge.unwrap_or_default();
        Ok(answer)
    }
}

/// What is measured.
struct Workload {
    name: &'static str,
    orchestration: &'static str,
    dispatchers: usize,
    workers: usize,
    in_flight: usize,
    orchestrations: usize,
}

const fn workload(
    name: &'static str,
    orchestration: &'static str,
    (dispatchers, workers): (usize, usize),
    (in_flight, orchestrations): (usize, usize),
) -> Workload {
    Workload {
        name,
        orchestration,
        dispatchers,
        workers,
        in_flight,
        orchestrations,
    }
}

const WORKLOADS: [Workload; 9] = [
    workload("hello-1", "Hello", (2, 2), (1, 50)),
    workload("hello-10", "Hello", (2, 2), (10, 300)),
    workload("hello-32", "Hello", (64, 64), (32, 500)),
    workload("hello-100", "Hello", (64, 64), (100, 2_000)),
    workload("hello-1000", "Hello", (64, 64), (1_000, 5_000)),
    workload("chain-1", "Chain", (2, 2), (1, 10)),
    workload("chain-5", "Chain", (2, 2), (5, 40)),
    workload("fan-1", "Fan", (8, 8), (1, 10)),
    workload("subs-1", "Subs", (8, 8), (1, 20)),
];

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Work", async |_: ActivityContext, input: String| {
            let number: u64 = input.parse().unwrap_or_default();
            // Different times from 0 to 4 ms, or 0 to 20.
            let millis = number * 7 % if number >= 100 { 21 } else { 5 };
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Ok(input)
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Hello", async |ctx: OrchestrationContext, input: String| {
            ctx.schedule_activity("Work", input).await
        })
        .register("Chain", async |ctx: OrchestrationContext, _: String| {
            for _ in 0..20 {
                ctx.schedule_activity("Work", "0").await?;
            }
            Ok(String::new())
        })
        .register("Fan", async |ctx: OrchestrationContext, _: String| {
            let work = (100..150).map(|number| ctx.schedule_activity("Work", number.to_string()));
            let done = ctx.join(work.collect()).await;
            Ok(done.len().to_string())
        })
        .register("Subs", async |ctx: OrchestrationContext, _: String| {
            let children =
                (0..5).map(|number| ctx.schedule_sub_orchestration("Hello", number.to_string()));
            let done = ctx.join(children.collect()).await;
            Ok(done.len().to_string())
        })
        .build()
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let are_stored = names.iter().any(|name| name == "--stored");
    names.retain(|name| name != "--stored");
    let hand_over = if are_stored {
        HandOver::Never
    } else {
        HandOver::default()
    };
    println!("| workload | dispatchers | in flight | requests | RU | p50 ms | p99 ms | per s |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for workload in &WORKLOADS {
        if names.is_empty() || names.iter().any(|name| name == workload.name) {
            measure(workload, &hand_over).await;
        }
    }
}

async fn measure(workload: &Workload, hand_over: &HandOver) {
    let backend = Backend::start_simulated().await;
    let spent = Arc::new(Mutex::new(Spent::default()));
    let through = |time| Distant(time, spent.clone());
    let settings = |config: &mut CosmosDBProviderConfig| config.hand_over = hand_over.clone();
    let provider = backend.provider_through(settings, through).await;
    let provider = Arc::new(provider.expect("not on an account"));
    let observer = Client::new(Arc::new(backend.provider().await));
    let clients = (Client::new(provider.clone()), observer);
    let options = RuntimeOptions {
        orchestration_concurrency: workload.dispatchers,
        worker_concurrency: workload.workers,
        ..RuntimeOptions::default()
    };
    let store: Arc<dyn Provider> = provider.clone();
    let runtime = Runtime::start_with_options(store, activities(), orchestrations(), options).await;
    // The first ones meet idle polls.
    run(&clients, workload, "warm", workload.dispatchers).await;
    let take = || std::mem::take(&mut *spent.lock().unwrap_or_else(PoisonError::into_inner));
    take();
    let begun = Instant::now();
    let mut times = run(&clients, workload, "measured", workload.orchestrations).await;
    let took = begun.elapsed();
    let spent = take();
    times.sort_unstable();
    let at =
        |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    #[expect(clippy::cast_precision_loss, reason = "thousands of requests")]
    let per = |count: u64| count as f64 / workload.orchestrations as f64;
    #[expect(clippy::cast_precision_loss, reason = "thousands of orchestrations")]
    let count = workload.orchestrations as f64;
    println!(
        "| {} | {}+{} | {} | {:.2} | {:.1} | {:.1} | {:.1} | {:.0} |",
        workload.name,
        workload.dispatchers,
        workload.workers,
        workload.in_flight,
        per(spent.requests),
        spent.charge / count,
        at(50),
        at(99),
        count / took.as_secs_f64(),
    );
    runtime.shutdown(Some(1_000)).await;
    backend.stop().await;
}

/// Runs orchestrations, so many at a time. Returns how long each took, up to its last commit.
async fn run(
    (client, observer): &(Client, Client),
    workload: &Workload,
    prefix: &str,
    count: usize,
) -> Vec<Duration> {
    let next = Arc::new(AtomicUsize::new(0));
    let lanes = (0..workload.in_flight).map(|_| {
        let (next, client, observer) = (next.clone(), client.clone(), observer.clone());
        let (prefix, orchestration) = (prefix.to_owned(), workload.orchestration);
        tokio::spawn(async move {
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return times;
                }
                let (id, begun) = (format!("{prefix}-{number}"), Instant::now());
                let input = (number % 100).to_string();
                let started = client.start_orchestration(&id, orchestration, input).await;
                started.expect("it starts");
                while !has_completed(&observer, &id).await {
                    assert!(begun.elapsed() < LONGEST, "{id} has not ended");
                    tokio::time::sleep(LOOK).await;
                }
                times.push(begun.elapsed());
            }
        })
    });
    let mut times = Vec::new();
    for lane in lanes.collect::<Vec<_>>() {
        times.extend(lane.await.expect("a lane"));
    }
    times
}

async fn has_completed(observer: &Client, id: &str) -> bool {
    match observer
        .get_orchestration_status(id)
        .await
        .expect("it is read")
    {
        OrchestrationStatus::Completed { .. } => true,
        OrchestrationStatus::Failed { details, .. } => panic!("{id}: {details:?}"),
        _ => false,
    }
}
