//! Work that is due is handed out, whatever other work waits, and what is handed out ends. Locks,
//! claims and polls have their default durations. Time is simulated.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::transport::HttpRequest;
use cdb_emulator::OperationKind;
use cdb_provider::CosmosDBProvider;
use cdb_provider::payload::Encryption;
use cdb_tests::Backend;
use duroxide::providers::{Provider, WorkItem};
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use tokio::time::Instant;

use crate::harness::{end_within, next_activity, next_turn, no_activities};
use crate::network::on_network;
use crate::several::{ack, enqueue, event, run_turn, start};

/// The longest time until a runtime finds work of another process, with blocked work in front.
const SOON: Duration = Duration::from_secs(2);

/// The wait of a fetch, as a runtime's dispatcher sends it.
const POLL: Duration = Duration::from_secs(30);

/// A query of one logical partition, with which a runtime loads an instance.
fn is_load(request: &HttpRequest) -> bool {
    let has = |name| request.headers.contains_key(name);
    has("x-ms-documentdb-isquery") && has("x-ms-documentdb-partitionkey")
}

fn lock_time() -> Duration {
    RuntimeOptions::default().orchestrator_lock_timeout
}

#[tokio::test(start_paused = true)]
async fn a_load_slower_than_the_lock_ends_in_a_commit_at_the_first_attempt() {
    let (backend, network, slow) = or_skip!(on_network().await);
    let (first, client) = (backend.provider().await, backend.provider().await);
    let ids: Vec<String> = (0..12).map(|number| format!("i-{number}")).collect();
    for id in &ids {
        enqueue(&client, start(id)).await;
    }
    for _ in &ids {
        run_turn(&first, lock_time()).await;
    }
    for id in &ids {
        enqueue(&client, event(id)).await;
    }
    network.slow_down(is_load, lock_time() + Duration::from_secs(1));
    for _ in &ids {
        let (item, token, attempt) = next_turn(&slow, lock_time()).await;
        assert_eq!(attempt, 1, "{}", item.instance);
        ack(&slow, &item, &token).await;
    }
    backend.stop().await;
}

/// Fetches a turn of `instance`, as a dispatcher does that gets other turns first and commits them.
/// Returns the time that it took.
async fn time_until(runtime: &CosmosDBProvider, instance: &str) -> Duration {
    let begun = Instant::now();
    loop {
        let (item, token, _) = next_turn(runtime, lock_time()).await;
        ack(runtime, &item, &token).await;
        if item.instance == instance {
            return begun.elapsed();
        }
    }
}

async fn a_start_behind_a_held_instance(events: usize) {
    let backend = Backend::start_simulated().await;
    let (holder, client) = (backend.provider().await, backend.provider().await);
    enqueue(&client, start("held")).await;
    let (held, ..) = next_turn(&holder, Duration::from_secs(300)).await;
    assert_eq!(held.instance, "held");
    for _ in 0..events {
        enqueue(&client, event("held")).await;
    }
    let runtime = backend.provider().await;
    let fetch = runtime.fetch_orchestration_item(lock_time(), POLL, None);
    let nothing = tokio::time::timeout(Duration::from_secs(5), fetch).await;
    assert!(nothing.is_err(), "only the held instance has messages");
    enqueue(&client, start("other")).await;
    let time = time_until(&runtime, "other").await;
    assert!(time <= SOON, "found after {time:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_held_instance_with_many_events_does_not_delay_others() {
    a_start_behind_a_held_instance(150).await;
}

#[tokio::test(start_paused = true)]
async fn a_held_instance_with_more_events_than_a_poll_reads_does_not_delay_others() {
    a_start_behind_a_held_instance(1_500).await;
}

#[tokio::test(start_paused = true)]
async fn a_held_instance_is_read_once_a_second_and_handed_out_when_its_lock_ends() {
    const HELD: Duration = Duration::from_secs(60);
    let backend = Backend::start_simulated().await;
    let (holder, client) = (backend.provider().await, backend.provider().await);
    enqueue(&client, start("held")).await;
    let (held, ..) = next_turn(&holder, HELD).await;
    let locked = Instant::now();
    enqueue(&client, event("held")).await;
    let runtime = backend.provider().await;
    if let Some(emulator) = backend.emulator() {
        emulator.reset_requests();
    }
    let (again, ..) = next_turn(&runtime, lock_time()).await;
    assert_eq!(again.instance, held.instance);
    let waited = locked.elapsed();
    assert!(waited <= HELD + Duration::from_millis(200), "{waited:?}");
    if let Some(emulator) = backend.emulator() {
        let counts = emulator.requests().counts;
        let reads = counts.get(&OperationKind::Read).copied();
        // The instance every second, and the limits every five.
        let most = HELD.as_secs() * 6 / 5 + 5;
        assert!(reads.unwrap_or_default() <= most, "{counts:?}");
    }
    backend.stop().await;
}

/// Returns a provider whose payloads are encoded with the key of this name.
async fn with_key(backend: &Backend, name: &str) -> CosmosDBProvider {
    let seed = name.bytes().fold(0, u8::wrapping_add);
    let codec = Encryption::new(name, &[seed; 32]).expect("a key");
    let codec = Arc::new(codec);
    backend
        .provider_with(|config| config.payload_codec = Some(codec))
        .await
}

/// A container whose runtimes have one key.
async fn encoded() -> Backend {
    Backend::start_simulated_with(|config| {
        let codec = Encryption::new("known", &[7; 32]).expect("a key");
        config.payload_codec = Some(Arc::new(codec));
    })
    .await
}

async fn a_start_behind_missing_keys(count: usize) {
    let backend = encoded().await;
    let (other, client) = (
        with_key(&backend, "missing").await,
        backend.provider().await,
    );
    for number in 0..count {
        enqueue(
            &other,
            encoded_input(start(&format!("unreadable-{number}"))),
        )
        .await;
    }
    let runtime = backend.provider().await;
    let fetch = runtime.fetch_orchestration_item(lock_time(), POLL, None);
    match tokio::time::timeout(Duration::from_secs(40), fetch).await {
        Ok(Ok(None)) => {}
        other => panic!("{other:?}"),
    }
    enqueue(&client, encoded_input(start("readable"))).await;
    let time = time_until(&runtime, "readable").await;
    assert!(time <= SOON, "found after {time:?}");
    backend.stop().await;
}

/// Returns a start or an activity with an input, which is encoded.
fn encoded_input(item: WorkItem) -> WorkItem {
    crate::work_items::with_input(item, "an input")
}

#[tokio::test(start_paused = true)]
async fn starts_with_a_missing_payload_key_do_not_delay_others() {
    a_start_behind_missing_keys(70).await;
}

#[tokio::test(start_paused = true)]
async fn more_starts_with_a_missing_payload_key_than_a_poll_reads_do_not_delay_others() {
    a_start_behind_missing_keys(1_100).await;
}

#[tokio::test(start_paused = true)]
async fn activities_with_a_missing_payload_key_do_not_delay_others() {
    let backend = encoded().await;
    let (other, client) = (
        with_key(&backend, "missing").await,
        backend.provider().await,
    );
    let activity = |id| encoded_input(crate::work_items::activity_of("i", id, None));
    for id in 2..72 {
        ok!(other.enqueue_for_worker(activity(id)));
    }
    ok!(client.enqueue_for_worker(activity(100)));
    let begun = Instant::now();
    let runtime = backend.provider().await;
    let (found, ..) = next_activity(&runtime, lock_time(), None).await;
    assert!(
        matches!(found, WorkItem::ActivityExecute { id: 100, .. }),
        "{found:?}"
    );
    assert!(begun.elapsed() <= SOON, "found after {:?}", begun.elapsed());
    backend.stop().await;
}

/// Instances without a start are loaded again and again, and each load takes its time.
#[tokio::test(start_paused = true)]
async fn slow_loads_in_vain_leave_a_dispatcher_for_others() {
    let (backend, network, slow) = or_skip!(on_network().await);
    let client = Client::new(Arc::new(backend.provider().await));
    for number in 0..80 {
        let early = client.enqueue_event(format!("early-{number}"), "Orders", "");
        early.await.expect("it is queued");
    }
    network.slow_down(is_load, Duration::from_secs(4));
    let once = |_: OrchestrationContext, _: String| async { Ok(String::new()) };
    let known = OrchestrationRegistry::builder().register("Once", once);
    let options = RuntimeOptions::default();
    let slow = Arc::new(slow);
    let runtime = Runtime::start_with_options(slow, no_activities(), known.build(), options).await;
    // Each instance is loaded once, and then after pauses of 1 to 60 s.
    tokio::time::sleep(Duration::from_secs(200)).await;
    for number in 0..6 {
        tokio::time::sleep(Duration::from_secs(7)).await;
        let instance = format!("new-{number}");
        ok!(client.start_orchestration(&instance, "Once", ""));
        let ended = end_within(&client, &instance, SOON).await;
        assert!(
            matches!(ended, Ok(OrchestrationStatus::Completed { .. })),
            "{instance}: {ended:?}"
        );
    }
    runtime.shutdown(None).await;
    backend.stop().await;
}
