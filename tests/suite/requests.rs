//! Upper bounds of requests, counted by the emulator, so that a more expensive change fails. Time
//! is simulated: on a slow machine, reservations would end before a dispatcher takes the messages,
//! which costs requests too.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Emulator, OperationKind};
use cdb_provider::documents::InstanceKey;
use cdb_provider::{CosmosDBProvider, SearchAttributes};
use cdb_tests::Backend;
use duroxide::providers::{ExecutionMetadata, Provider, TagFilter, WorkItem};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use tokio::sync::mpsc;

use crate::harness::next_turn;
use crate::several::{ack, enqueue, event};

const LOCK: Duration = Duration::from_secs(30);

fn start(instance: &str) -> WorkItem {
    crate::work_items::start_of(instance, "Hello")
}

fn activity(instance: &str, id: u64) -> WorkItem {
    crate::work_items::activity_of(instance, id, None)
}

/// Requests since the last call, by kind, without the reconciler's searches.
fn spent(backend: &Backend) -> Option<Vec<(OperationKind, u64)>> {
    let emulator = backend.emulator()?;
    let counts = emulator.requests().counts;
    emulator.reset_requests();
    Some(counts.into_iter().collect())
}

/// A provider that has sent its first polls, and sends the next ones after a long time.
async fn quiet() -> (Backend, CosmosDBProvider) {
    let backend = Backend::start_simulated_with(|config| {
        config.reconciler_interval = LOCK;
        (config.min_poll_interval, config.max_poll_interval) = (LOCK, LOCK);
    })
    .await;
    let provider = backend.provider().await;
    let none = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    assert!(none.await.expect("fetch").is_none());
    let any = TagFilter::default();
    let none = provider.fetch_work_item(LOCK, Duration::ZERO, None, &any);
    assert!(none.await.expect("fetch").is_none());
    (backend, provider)
}

#[tokio::test(start_paused = true)]
async fn a_process_does_not_request_what_it_has_cached() {
    let (backend, provider) = quiet().await;
    if spent(&backend).is_none() {
        println!("skipped: only the emulator counts");
        return;
    }
    provider
        .enqueue_for_orchestrator(start("hello"), None)
        .await
        .expect("start");
    assert_eq!(spent(&backend), Some(vec![(OperationKind::Create, 1)]));

    // The message is cached, so the lock is the only request: it creates the instance.
    let (_, token, _) = provider
        .fetch_orchestration_item(LOCK, LOCK, None)
        .await
        .expect("fetch")
        .expect("a turn");
    assert_eq!(spent(&backend), Some(vec![(OperationKind::Create, 1)]));
    let activities = (1..=20).map(|id| activity("hello", id)).collect();
    provider
        .ack_orchestration_item(
            &token,
            1,
            vec![],
            activities,
            vec![],
            ExecutionMetadata::default(),
            vec![],
        )
        .await
        .expect("ack");
    assert_eq!(spent(&backend), Some(vec![(OperationKind::Batch, 1)]));

    // The fetch locks the first activity; the end of each activity locks the next.
    for _ in 0..20 {
        let (_, token, _) = provider
            .fetch_work_item(LOCK, LOCK, None, &TagFilter::default())
            .await
            .expect("fetch")
            .expect("an activity");
        provider.ack_work_item(&token, None).await.expect("ack");
    }
    let spent: u64 = spent(&backend)
        .into_iter()
        .flatten()
        .map(|(_, count)| count)
        .sum();
    assert_eq!(spent, 21, "requests for 20 activities");
    backend.stop().await;
}

/// The request units of an instance; `None` when its document has none.
async fn request_units(provider: &CosmosDBProvider, instance: &str) -> Option<f64> {
    let stored = provider.container().read(&InstanceKey::new(instance)).await;
    stored.expect("it is read")?.document.request_units
}

#[tokio::test(start_paused = true)]
async fn an_instance_stores_its_request_units_without_its_last_commit() {
    let (backend, provider) = quiet().await;
    let charged = || provider.container().usage().total().charge;
    let opened = charged();
    let turn = async |activities, status: Option<&str>| {
        let fetched = provider.fetch_orchestration_item(LOCK, LOCK, None).await;
        let (_, token, _) = fetched.expect("fetch").expect("a turn");
        let before = charged() - opened;
        let metadata = ExecutionMetadata {
            orchestration_name: Some("Hello".to_owned()),
            status: status.map(str::to_owned),
            ..ExecutionMetadata::default()
        };
        let ack = provider.ack_orchestration_item(
            &token,
            1,
            vec![],
            activities,
            vec![],
            metadata,
            vec![],
        );
        ack.await.expect("ack");
        before
    };
    let started = provider
        .enqueue_for_orchestrator(start("hello"), None)
        .await;
    started.expect("start");
    let before = turn(vec![activity("hello", 2)], None).await;
    assert!(before > 10.0, "the start and a lock cost {before}");
    let stored = request_units(&provider, "hello").await.expect("a charge");
    assert!((stored - before).abs() < 0.02, "{stored} of {before}");

    let any = TagFilter::default();
    let fetched = provider.fetch_work_item(LOCK, LOCK, None, &any).await;
    let (_, token, _) = fetched.expect("fetch").expect("an activity");
    let completed = crate::work_items::completion_of("hello", 2, "");
    provider
        .ack_work_item(&token, Some(completed))
        .await
        .expect("ack");
    let before = turn(vec![], Some("Completed")).await;
    let stored = request_units(&provider, "hello").await.expect("a charge");
    // The test's own read cost 1 RU.
    assert!(
        (stored - (before - 1.0)).abs() < 0.05,
        "{stored} of {before}"
    );
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_runtime_slows_down_to_one_request_a_second() {
    let backend = Backend::start_simulated_with(|config| config.reconciler_interval = LOCK).await;
    let provider = backend.provider().await;
    let fetch = |time| provider.fetch_orchestration_item(LOCK, time, None);
    // During the first second, the pause between two polls still grows.
    fetch(Duration::from_secs(1)).await.expect("fetch");
    if spent(&backend).is_none() {
        println!("skipped: only the emulator counts");
        return;
    }
    fetch(Duration::from_secs(3)).await.expect("fetch");
    let polls: u64 = spent(&backend)
        .into_iter()
        .flatten()
        .map(|(_, count)| count)
        .sum();
    assert!(polls <= 4, "{polls} requests in three idle seconds");
    backend.stop().await;
}

/// How many times each workload runs, one after the other.
const RUNS: u64 = 5;

#[derive(SearchAttributes)]
struct Left {
    left: u32,
}

/// Orchestrations that report their end: status queries of a client would be counted.
fn workloads(done: mpsc::UnboundedSender<()>) -> OrchestrationRegistry {
    let (chained, fanned, gathered, repeated) =
        (done.clone(), done.clone(), done.clone(), done.clone());
    OrchestrationRegistry::builder()
        .register("Chain", move |ctx: OrchestrationContext, count: String| {
            let done = chained.clone();
            async move {
                for _ in 0..number(&count)? {
                    ctx.schedule_activity("Echo", "").await?;
                }
                finish(&done)
            }
        })
        .register("FanOut", move |ctx: OrchestrationContext, count: String| {
            let done = fanned.clone();
            async move {
                let activities = (0..number(&count)?).map(|_| ctx.schedule_activity("Echo", ""));
                ctx.join(activities.collect()).await;
                finish(&done)
            }
        })
        .register("Parent", move |ctx: OrchestrationContext, count: String| {
            let done = gathered.clone();
            async move {
                let child = || ctx.schedule_sub_orchestration("Child", "");
                ctx.join((0..number(&count)?).map(|_| child()).collect())
                    .await;
                finish(&done)
            }
        })
        .register(
            "Searched",
            move |ctx: OrchestrationContext, count: String| {
                let done = done.clone();
                async move {
                    for left in (0..number(&count)?).rev() {
                        Left { left }.set(&ctx)?;
                        ctx.schedule_activity("Echo", "").await?;
                    }
                    finish(&done)
                }
            },
        )
        .register("Child", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Echo", "").await
        })
        .register("Again", move |ctx: OrchestrationContext, count: String| {
            let done = repeated.clone();
            async move {
                match number(&count)? {
                    1 => finish(&done),
                    left => ctx.continue_as_new((left - 1).to_string()).await,
                }
            }
        })
        .build()
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

fn finish(done: &mpsc::UnboundedSender<()>) -> Result<String, String> {
    done.send(()).map_err(|error| error.to_string())?;
    Ok(String::new())
}

/// Runs a workload in a process that needs no poll for its own starts and polls too rarely to
/// count. The bounds are the measured values and a little more, for a renewed lock.
async fn costs_at_most(bound: u64, orchestration: &str, input: &str) {
    let backend = Backend::start_simulated_with(|config| {
        config.reconciler_interval = LOCK;
        (config.min_poll_interval, config.max_poll_interval) = (LOCK, LOCK);
    })
    .await;
    let Some(emulator) = backend.emulator() else {
        println!("skipped: only the emulator counts");
        return;
    };
    let echo = |_: ActivityContext, input: String| async move { Ok(input) };
    let activities = ActivityRegistry::builder().register("Echo", echo).build();
    let (done, mut finished) = mpsc::unbounded_channel();
    let store = Arc::new(backend.provider().await);
    let runtime = Runtime::start_with_store(store.clone(), activities, workloads(done)).await;
    let client = Client::new(store);
    emulator.reset_requests();
    for run in 0..RUNS {
        client
            .start_orchestration(format!("run-{run}"), orchestration, input)
            .await
            .expect("the instance starts");
        finished.recv().await.expect("it comes to its end");
    }
    // The last turn is still being committed.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let spent = emulator.requests().data_requests();
    println!("{orchestration} {input}: {spent} requests for {RUNS}");
    assert!(spent <= bound * RUNS, "{spent} requests for {RUNS}");
    runtime.shutdown(None).await;
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn hello_world_stays_within_its_requests() {
    costs_at_most(5, "Chain", "1").await;
}

#[tokio::test(start_paused = true)]
async fn a_chain_of_activities_stays_within_its_requests() {
    costs_at_most(44, "Chain", "20").await;
}

/// The same chain, with attributes that each turn sets.
#[tokio::test(start_paused = true)]
async fn search_attributes_add_no_request() {
    costs_at_most(44, "Searched", "20").await;
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_stays_within_its_requests() {
    costs_at_most(16, "FanOut", "5").await;
}

#[tokio::test(start_paused = true)]
async fn sub_orchestrations_stay_within_their_requests() {
    costs_at_most(45, "Parent", "5").await;
}

#[tokio::test(start_paused = true)]
async fn continue_as_new_stays_within_its_requests() {
    costs_at_most(23, "Again", "20").await;
}

/// The number of loads of a partition since the last reset.
fn loads(emulator: &Emulator) -> u64 {
    let queries = emulator.requests().queries.into_iter();
    let loads = queries.filter(|(text, _)| text.contains("executionId"));
    loads.map(|(_, count)| count).sum()
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_another_runtime_holds_is_not_loaded_again_and_again() {
    let backend = Backend::start_simulated().await;
    let Some(emulator) = backend.emulator() else {
        println!("skipped: only the emulator counts");
        return;
    };
    let (holder, other) = (backend.provider().await, backend.provider().await);
    enqueue(&holder, start("held")).await;
    let (item, token, _) = next_turn(&holder, LOCK).await;
    ack(&holder, &item, &token).await;
    enqueue(&holder, event("held")).await;
    let (item, token, _) = next_turn(&holder, LOCK).await;
    enqueue(&other, event("held")).await;
    emulator.reset_requests();
    let none = other.fetch_orchestration_item(LOCK, LOCK / 3, None);
    assert!(none.await.expect("fetch").is_none());
    assert!(loads(emulator) <= 2, "{} loads", loads(emulator));
    ack(&holder, &item, &token).await;
    let soon = Duration::from_secs(1);
    let next = tokio::time::timeout(soon, next_turn(&other, LOCK)).await;
    let (item, ..) = next.expect("the instance is free");
    assert_eq!(item.messages, [event("held")]);
    backend.stop().await;
}
