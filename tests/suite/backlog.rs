//! More messages for one instance than a turn takes: they are due at once, none is lost, and none
//! overtakes another. Time is simulated.

use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::OrchestratorItem;
use cdb_provider::model::Query;
use cdb_tests::Backend;
use duroxide::providers::{OrchestrationItem, Provider, TagFilter, WorkItem};
use tokio::task::JoinSet;

use crate::harness::{finds_turn, next_turn};
use crate::locks::activity;
use crate::several::{ack, ack_and_send, begin, enqueue, start, turn_with};

const LOCK: Duration = Duration::from_secs(60);

/// More messages than a turn takes, and than a load of several pages reads.
const MANY: usize = 150;

/// Longer than a runtime takes to find messages of another process.
const SOON: Duration = Duration::from_secs(5);

/// Event number `number`, with this many more bytes.
fn event(instance: &str, number: usize, bytes: usize) -> WorkItem {
    let data = format!("{number} {}", "x".repeat(bytes));
    crate::work_items::event_of(instance, "Event", data)
}

async fn enqueue_events(provider: &CosmosDBProvider, instance: &str, count: usize, bytes: usize) {
    for number in 0..count {
        enqueue(provider, event(instance, number, bytes)).await;
    }
}

/// The numbers of the events of a turn.
fn numbers(item: &OrchestrationItem) -> impl Iterator<Item = usize> + '_ {
    item.messages.iter().filter_map(|message| match message {
        WorkItem::ExternalRaised { data, .. } => data.split(' ').next()?.parse().ok(),
        _ => None,
    })
}

/// Takes turns of an instance until they have received this many events. Returns the numbers.
async fn received(runtime: &CosmosDBProvider, instance: &str, count: usize) -> Vec<usize> {
    let mut received = Vec::new();
    while received.len() < count {
        let turn = tokio::time::timeout(SOON, next_turn(runtime, LOCK)).await;
        let (item, token, _) = turn.expect("a turn is due");
        assert_eq!(item.instance, instance);
        received.extend(numbers(&item));
        ack(runtime, &item, &token).await;
    }
    received
}

async fn a_late_start(bytes: usize) {
    let backend = Backend::start_simulated().await;
    let (client, runtime) = (backend.provider().await, backend.provider().await);
    enqueue_events(&client, "late", MANY, bytes).await;
    enqueue(&client, start("late")).await;
    let events = received(&runtime, "late", MANY).await;
    assert!(events.iter().copied().eq(0..MANY), "{events:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_is_found_behind_more_events_than_a_turn_takes() {
    a_late_start(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_is_found_behind_several_pages_of_events() {
    a_late_start(40_000).await;
}

#[tokio::test(start_paused = true)]
async fn thousands_of_messages_at_one_time_are_due_at_once() {
    let backend = Backend::start_simulated().await;
    let client = backend.provider().await;
    let mut sent = JoinSet::new();
    for number in 0..2_000 {
        let client = client.clone();
        sent.spawn(async move { enqueue(&client, start(&format!("i-{number}"))).await });
    }
    sent.join_all().await;
    let later = OrchestratorItem::VISIBLE_AT.gt(client.container().now());
    let later = Query::<OrchestratorItem>::across_partitions().filter(later);
    let later = client.container().query(later.count()).all().await;
    assert_eq!(later.expect("they are counted"), [0]);
    backend.stop().await;
}

/// A runtime that has cached the instance `i`, and whose other dispatcher is working.
async fn with_cached_instance(backend: &Backend) -> CosmosDBProvider {
    let runtime = backend.provider().await;
    begin(&runtime, "i", LOCK).await;
    let (working, ..) = turn_with(&runtime, start("working"), LOCK).await;
    assert_eq!(working.instance, "working");
    runtime
}

#[tokio::test(start_paused = true)]
async fn a_delivered_message_does_not_overtake_a_backlog() {
    let backend = Backend::start_simulated().await;
    let runtime = with_cached_instance(&backend).await;
    let (sender, token, _) = turn_with(&runtime, start("sender"), LOCK).await;
    enqueue_events(&runtime, "i", 70, 0).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    ack_and_send(&runtime, &sender, &token, vec![event("i", 70, 0)]).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let events = received(&runtime, "i", 71).await;
    assert!(events.iter().copied().eq(0..71), "{events:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_of_an_instance_to_itself_does_not_overtake_a_backlog() {
    let backend = Backend::start_simulated().await;
    let runtime = with_cached_instance(&backend).await;
    let (item, token, _) = turn_with(&runtime, event("i", 0, 0), LOCK).await;
    for number in 1..71 {
        enqueue(&runtime, event("i", number, 0)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    ack_and_send(&runtime, &item, &token, vec![event("i", 71, 0)]).await;
    let events = received(&runtime, "i", 71).await;
    assert!(events.iter().copied().eq(1..72), "{events:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_takes_no_more_messages_of_an_instance_to_itself_than_any_turn() {
    let backend = Backend::start_simulated().await;
    let runtime = with_cached_instance(&backend).await;
    let (item, token, _) = turn_with(&runtime, event("i", 0, 0), LOCK).await;
    let own = (1..91).map(|number| event("i", number, 0)).collect();
    ack_and_send(&runtime, &item, &token, own).await;
    let (item, ..) = next_turn(&runtime, LOCK).await;
    assert_eq!(item.messages.len(), 64);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_does_not_overtake_one_whose_outcome_is_unknown() {
    let backend = Backend::start_simulated().await;
    let emulator = or_skip!(backend.emulator(), "needs the emulator");
    let runtime = with_cached_instance(&backend).await;
    for lost in [OperationKind::Batch, OperationKind::Create] {
        emulator.inject(Fault::always(Effect::DropAnswer).on(lost));
    }
    emulator.inject(Fault::always(Effect::error(503, 0)).on(OperationKind::Read));
    let unknown = runtime
        .enqueue_for_orchestrator(event("i", 0, 0), None)
        .await;
    assert!(unknown.is_err(), "its outcome is unknown");
    emulator.clear_faults();
    enqueue(&runtime, event("i", 1, 0)).await;
    let events = received(&runtime, "i", 2).await;
    assert_eq!(events, [0, 1]);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fetch_accepts_any_timeout() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    enqueue(&provider, start("i")).await;
    assert!(finds_turn(&provider, Duration::MAX, Duration::MAX).await);
    ok!(provider.enqueue_for_worker(activity()));
    let fetched = provider.fetch_work_item(Duration::MAX, Duration::MAX, None, &TagFilter::Any);
    let (_, token, _) = fetched.await.expect("fetch").expect("an activity");
    ok!(provider.renew_work_item_lock(&token, Duration::MAX));
    backend.stop().await;
}

/// Polls return whole messages, so no turn reads them again.
#[tokio::test(start_paused = true)]
async fn each_message_of_a_backlog_is_read_once() {
    const COUNT: u64 = 200;
    let backend = Backend::start_simulated().await;
    let client = backend.provider().await;
    for number in 0..COUNT {
        let instance = format!("i-{number}");
        enqueue(&client, event(&instance, 0, 50_000)).await;
        enqueue(&client, start(&instance)).await;
    }
    let runtime = backend.provider().await;
    let emulator = or_skip!(backend.emulator(), "only the emulator counts");
    emulator.reset_requests();
    for _ in 0..COUNT {
        let (item, token, _) = next_turn(&runtime, LOCK).await;
        assert_eq!(item.messages.len(), 2);
        tokio::time::sleep(Duration::from_millis(20)).await;
        ack(&runtime, &item, &token).await;
    }
    let log = emulator.requests();
    assert!(log.bytes_out <= COUNT * 60_000, "{log:#?}");
    backend.stop().await;
}

/// Runtimes without membership poll the same messages.
#[tokio::test(start_paused = true)]
async fn runtimes_that_share_a_backlog_seldom_try_the_same_instance() {
    const COUNT: usize = 300;
    let backend = Backend::start_simulated().await;
    let client = backend.provider().await;
    for number in 0..COUNT {
        enqueue(&client, start(&format!("i-{number}"))).await;
    }
    let emulator = or_skip!(backend.emulator(), "only the emulator counts");
    emulator.reset_requests();
    let mut runtimes = JoinSet::new();
    for _ in 0..8 {
        let runtime = backend.provider().await;
        runtimes.spawn(async move {
            let mut ended = 0;
            while let Ok(turn) = tokio::time::timeout(SOON, next_turn(&runtime, LOCK)).await {
                let (item, token, _) = turn;
                tokio::time::sleep(Duration::from_millis(20)).await;
                ack(&runtime, &item, &token).await;
                ended += 1;
            }
            ended
        });
    }
    let ended: usize = runtimes.join_all().await.iter().sum();
    assert_eq!(ended, COUNT);
    let locks = emulator.requests().counts[&OperationKind::Create];
    assert!(locks <= 2 * COUNT as u64, "{locks} locks for {COUNT} turns");
    backend.stop().await;
}
