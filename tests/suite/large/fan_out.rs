//! Thousands of activities from one turn, through duroxide's runtime, to the last result and the
//! last document.

use std::time::{Duration, Instant};

use cdb_provider::documents::WorkerItem;
use cdb_tests::Backend;
use duroxide::providers::{Provider, ProviderAdmin};
use duroxide::{EventKind, OrchestrationContext, OrchestrationRegistry};

use super::{
    Left, activity, count, documents, echo, end_of, enqueue, litter, named, start, started, turn,
};
use crate::harness::{TestEnv, eventually};
use crate::network::{READ, on_network};

/// Schedules `input` activities at once, and returns the sum of their results.
fn fanning_out() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "FanOut",
            async |ctx: OrchestrationContext, input: String| {
                let count: u64 = input.parse().map_err(|_| "no number".to_owned())?;
                let sent = (0..count).map(|n| ctx.schedule_activity("Echo", n.to_string()));
                let mut sum = 0;
                for result in ctx.join(sent.collect()).await {
                    sum += result?.parse::<u64>().map_err(|error| error.to_string())?;
                }
                Ok(sum.to_string())
            },
        )
        .build()
}

async fn a_fan_out_ends(count: u64) {
    let env = TestEnv::start(echo(), fanning_out()).await;
    let begun = Instant::now();
    let started = env
        .client
        .start_orchestration("fan", "FanOut", count.to_string());
    started.await.expect("it starts");
    let sum = (count * (count - 1) / 2).to_string();
    assert_eq!(end_of(&env, "fan").await, sum);
    println!(
        "{count} activities of one turn ended in {:?}",
        begun.elapsed()
    );
    if let Some(emulator) = env.emulator() {
        let log = emulator.requests();
        println!(
            "with {} requests and {:.0} RU",
            log.data_requests(),
            log.charge
        );
    }
    let provider = &env.provider;
    let history = provider.read("fan").await.expect("a history");
    let ended = |kind: &EventKind| matches!(kind, EventKind::ActivityCompleted { .. });
    let ended = history.iter().filter(|event| ended(&event.kind)).count();
    assert_eq!(ended as u64, count, "every activity ends once");
    ok!(provider.delete_instance("fan", false));
    eventually(async || documents(provider, "fan").await == 0).await;
    eventually(async || litter(provider).await == (0, 0)).await;
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_out_to_hundreds_completes() {
    a_fan_out_ends(300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; docs/reliability.md"]
async fn a_fan_out_to_five_thousand_completes() {
    a_fan_out_ends(5_000).await;
}

/// A first turn that schedules activities with this input.
fn schedules(count: u64, input: &str) -> Left {
    let activities = (1..=count).map(|id| activity("large", id, input.to_owned()));
    Left {
        events: vec![started("large", String::new())],
        activities: activities.collect(),
        metadata: named(),
        ..Left::default()
    }
}

/// Escaped, an input takes twice the bytes of its text, and one batch has no room for all of them.
#[tokio::test]
async fn activities_that_fill_the_batches_of_their_delivery_are_all_queued() {
    const COUNT: u64 = 100;
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    enqueue(&provider, start("large", String::new())).await;
    // The gate for older runtimes has queue items too.
    let gate = count::<WorkerItem>(&provider).await;
    let left = schedules(COUNT, &"\"".repeat(24_000));
    turn(&provider, left).await;
    eventually(async || count::<WorkerItem>(&provider).await == gate + COUNT).await;
    backend.stop().await;
}

/// The list of the activities has so many chunks that reading them takes longer than the deadline
/// of a small request.
#[tokio::test(start_paused = true)]
async fn a_long_list_of_activities_is_delivered_by_slow_reads() {
    const COUNT: u64 = 150;
    let (backend, network, provider) = or_skip!(on_network().await);
    enqueue(&provider, start("large", String::new())).await;
    let gate = count::<WorkerItem>(&provider).await;
    let left = schedules(COUNT, &"x".repeat(60_000));
    network.slow_down(READ, Duration::from_secs(3));
    turn(&provider, left).await;
    let queued = eventually(async || count::<WorkerItem>(&provider).await == gate + COUNT);
    let queued = tokio::time::timeout(Duration::from_secs(120), queued).await;
    queued.expect("they are delivered");
    backend.stop().await;
}
