//! Many physical partitions: one that does not answer delays only its own instances, and polls
//! visit only those with due items. Time is simulated.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::transport::HttpRequest;
use cdb_emulator::{Effect, Emulator, Fault};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, InMemoryLeaseProvider};
use cdb_tests::Backend;
use duroxide::providers::Provider as _;
use tokio::time::Instant;

use crate::harness::{finds_turn, next_turn};
use crate::network::Network;
use crate::several::{ack, enqueue, run_turn, start};

const LOCK: Duration = Duration::from_secs(30);

/// The longest time until a runtime finds the message of another one, while a partition is sick.
const FOUND_WITHIN: Duration = Duration::from_secs(2);

pub(crate) const SICK: &str = "3";

/// Instances, each with its physical partition.
pub(crate) async fn instances(provider: &CosmosDBProvider, count: u32) -> Vec<(String, String)> {
    let mut instances = Vec::new();
    for number in 0..count {
        let instance = format!("i-{number}");
        let range = provider
            .container()
            .physical_partition_of(&instance.as_str().into())
            .await;
        let range = range
            .expect("the partitions are listed")
            .expect("a string is hashed");
        instances.push((instance, range.to_string()));
    }
    instances
}

/// Starts instances from another process while a partition is sick. The runtime finds those of the
/// other partitions in time, and those of the sick one after `recover`.
async fn only_the_sick_partition_waits(
    backend: &Backend,
    runtime: &CosmosDBProvider,
    sicken: impl FnOnce(),
    recover: impl FnOnce(),
) {
    let starter = backend.provider().await;
    let all = instances(&starter, 40).await;
    for (instance, _) in &all {
        enqueue(&starter, start(instance)).await;
    }
    sicken();
    let (sick, sound): (Vec<_>, Vec<_>) = all.iter().partition(|(_, range)| range == SICK);
    assert!(!sick.is_empty() && sound.len() > sick.len());
    let begun = Instant::now();
    for _ in &sound {
        let (item, token, _) = next_turn(runtime, LOCK).await;
        ack(runtime, &item, &token).await;
        let is_sound = sound.iter().any(|(instance, _)| *instance == item.instance);
        assert!(is_sound, "{} is in the sick partition", item.instance);
    }
    let took = begun.elapsed();
    assert!(took < FOUND_WITHIN, "the others were found in {took:?}");
    // A later message is found in time too, although the poll has met the sick partition.
    let (late, _) = sound.first().expect("there are sound partitions");
    enqueue(&starter, crate::several::event(late)).await;
    let begun = Instant::now();
    run_turn(runtime, LOCK).await;
    let took = begun.elapsed();
    assert!(took < FOUND_WITHIN, "a later message was found in {took:?}");
    recover();
    for _ in &sick {
        run_turn(runtime, LOCK).await;
    }
}

async fn a_failing_partition(effect: Effect) {
    let backend = or_skip!(Backend::start_simulated_on(8).await);
    let runtime = backend.provider().await;
    let emulator = backend.emulator().expect("not on an account");
    let sicken = || {
        let sick = Fault::always(effect).on_partition(SICK);
        emulator.inject(sick.on_every_kind());
    };
    let recover = || emulator.clear_faults();
    only_the_sick_partition_waits(&backend, &runtime, sicken, recover).await;
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_partition_delays_only_its_own_instances() {
    a_failing_partition(Effect::error(503, 0)).await;
}

#[tokio::test(start_paused = true)]
async fn a_throttled_partition_delays_only_its_own_instances() {
    a_failing_partition(Effect::throttled(Duration::from_secs(3))).await;
}

#[tokio::test(start_paused = true)]
async fn a_moving_partition_delays_only_its_own_instances() {
    a_failing_partition(Effect::error(410, 1007)).await;
}

fn needs_the_sick_partition(request: &HttpRequest) -> bool {
    let range = request.headers.get("x-ms-documentdb-partitionkeyrangeid");
    range.is_some_and(|range| range == SICK)
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_delays_only_its_own_instances() {
    let backend = or_skip!(Backend::start_simulated_on(8).await);
    let network = Network::default();
    let runtime = network.provider(&backend).await;
    let runtime = runtime.expect("not on an account");
    let sicken = || network.swallow(needs_the_sick_partition);
    only_the_sick_partition_waits(&backend, &runtime, sicken, || network.repair()).await;
    backend.stop().await;
}

/// The number of polls since the last reset: the queries in order of the due time.
fn polls(emulator: &Emulator) -> u64 {
    let queries = emulator.requests().queries.into_iter();
    let polls =
        queries.filter(|(text, _)| text.contains("ORDER BY c[\"type\"] ASC, c[\"visibleAt\"]"));
    polls.map(|(_, count)| count).sum()
}

#[tokio::test(start_paused = true)]
async fn an_idle_runtime_probes_each_partition_once_per_interval_and_polls_none() {
    let backend = or_skip!(Backend::start_simulated_on(50).await);
    let provider = backend.provider().await;
    let emulator = backend.emulator().expect("not on an account");
    assert!(!finds_turn(&provider, LOCK, Duration::from_secs(5)).await);
    emulator.reset_requests();
    assert!(!finds_turn(&provider, LOCK, Duration::from_secs(20)).await);
    assert_eq!(polls(emulator), 0);
    let queries: u64 = emulator.requests().queries.into_values().sum();
    // One probe a second, and the searches of the reconciler that this suite speeds up.
    assert!(
        (15 * 50..=130 * 50).contains(&queries),
        "{queries} queries in 20 s"
    );
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_of_another_process_costs_one_poll_of_its_partition() {
    let backend = or_skip!(Backend::start_simulated_on(50).await);
    let (starter, runtime) = (backend.provider().await, backend.provider().await);
    let emulator = backend.emulator().expect("not on an account");
    assert!(!finds_turn(&runtime, LOCK, Duration::from_secs(5)).await);
    emulator.reset_requests();
    enqueue(&starter, start("other")).await;
    let (item, token, _) = next_turn(&runtime, LOCK).await;
    assert_eq!(item.instance, "other");
    assert!(polls(emulator) <= 2, "{} polls", polls(emulator));
    ack(&runtime, &item, &token).await;
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn runtimes_share_the_partitions_and_take_overdue_items_of_all() {
    let backend = or_skip!(Backend::start_simulated_on(16).await);
    let starter = backend.provider().await;
    for (instance, _) in instances(&starter, 40).await {
        enqueue(&starter, start(&instance)).await;
    }
    // The other half of the cluster never starts.
    let share = Arc::new(InMemoryLeaseProvider::share(0, 2));
    let half = starter.container().clone();
    let config = CosmosDBProviderConfig {
        leases: Some(share),
        ..cdb_tests::settings()
    };
    let half = ok!(CosmosDBProvider::on(half, &config));
    let begun = Instant::now();
    let mut found = Vec::new();
    for _ in 0..40 {
        run_turn(&half, LOCK).await;
        found.push(begun.elapsed());
    }
    let early = found
        .iter()
        .filter(|at| **at < Duration::from_secs(4))
        .count();
    assert!(
        (10..=30).contains(&early),
        "{early} of 40 are of the own share"
    );
    let last = found.last().expect("there are 40");
    assert!(
        *last < Duration::from_secs(16),
        "the last was found after {last:?}"
    );
    backend.stop().await;
}

/// Requests the counts that duroxide's gauges show. Returns how many queries that cost.
async fn queries_of_counts(emulator: &Emulator, provider: &CosmosDBProvider) -> u64 {
    emulator.reset_requests();
    let admin = provider.as_management_capability();
    let admin = admin.expect("the provider has it");
    let counts = tokio::join!(admin.get_system_metrics(), admin.get_queue_depths());
    assert!(counts.0.is_ok() && counts.1.is_ok(), "{counts:?}");
    let queries = emulator.requests().queries.into_values();
    queries.sum()
}

#[tokio::test(start_paused = true)]
async fn counts_of_many_partitions_serve_several_calls() {
    let backend = or_skip!(Backend::start_simulated_on(50).await);
    let provider = backend.provider().await;
    provider.shutdown(Duration::ZERO).await;
    let emulator = backend.emulator().expect("not on an account");
    let queries = async || queries_of_counts(emulator, &provider).await;
    assert_eq!(queries().await, 8 * 50);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(queries().await, 0);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(queries().await > 0);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn counts_of_a_single_partition_are_always_new() {
    let backend = or_skip!(Backend::start_simulated_on(1).await);
    let provider = backend.provider().await;
    provider.shutdown(Duration::ZERO).await;
    let emulator = backend.emulator().expect("not on an account");
    for _ in 0..2 {
        assert_eq!(queries_of_counts(emulator, &provider).await, 8);
    }
    backend.stop().await;
}
