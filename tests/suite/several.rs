//! Several runtimes on one container: caches and reservations of one runtime never decide. Time is
//! simulated.

use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_tests::Backend;
use duroxide::providers::{OrchestrationItem, Provider, ProviderError, WorkItem};
use duroxide::{Event, EventKind};
use tokio::time::Instant;

use crate::harness::next_turn;
use crate::work_items::{event_of, metadata_of, start_of, started};

/// The duration of locks; other runtimes wait until they expire.
const LOCK: Duration = Duration::from_secs(2);

pub(crate) fn start(instance: &str) -> WorkItem {
    start_of(instance, "Wait")
}

pub(crate) fn event(instance: &str) -> WorkItem {
    event_of(instance, "Event", "")
}

pub(crate) async fn enqueue(provider: &CosmosDBProvider, item: WorkItem) {
    ok!(provider.enqueue_for_orchestrator(item, None));
}

/// Sends a message, and locks the next turn.
pub(crate) async fn turn_with(
    provider: &CosmosDBProvider,
    message: WorkItem,
    lock: Duration,
) -> (OrchestrationItem, String, u32) {
    enqueue(provider, message).await;
    next_turn(provider, lock).await
}

/// Commits the next turn, which adds one event.
pub(crate) async fn run_turn(provider: &CosmosDBProvider, lock: Duration) {
    let (item, token, _) = next_turn(provider, lock).await;
    ack(provider, &item, &token).await;
}

/// Starts an instance, and commits the next turn.
pub(crate) async fn begin(provider: &CosmosDBProvider, instance: &str, lock: Duration) {
    enqueue(provider, start(instance)).await;
    run_turn(provider, lock).await;
}

async fn fetch(provider: &CosmosDBProvider) -> (OrchestrationItem, String) {
    let (item, token, _) = next_turn(provider, LOCK).await;
    (item, token)
}

/// Commits a turn that adds one event.
pub(crate) async fn ack(provider: &CosmosDBProvider, item: &OrchestrationItem, token: &str) {
    ack_and_send(provider, item, token, vec![]).await;
}

/// Commits a turn that adds one event and sends these messages.
pub(crate) async fn ack_and_send(
    provider: &CosmosDBProvider,
    item: &OrchestrationItem,
    token: &str,
    messages: Vec<WorkItem>,
) {
    ok!(try_ack(provider, item, token, messages));
}

/// Commits the first turn, which also adds events of these kinds.
pub(crate) async fn ack_first_with(
    provider: &CosmosDBProvider,
    item: &OrchestrationItem,
    token: &str,
    kinds: impl IntoIterator<Item = EventKind>,
) {
    let event = |(id, kind)| Event::with_event_id(id, item.instance.clone(), 1, None, kind);
    let kinds = [started("Wait", "")].into_iter().chain(kinds);
    let events = (1..).zip(kinds).map(event).collect();
    let metadata = metadata_of("Wait");
    let acknowledged = provider
        .ack_orchestration_item(token, 1, events, vec![], vec![], metadata, vec![])
        .await;
    acknowledged.expect("the turn is committed");
}

/// As [`ack_and_send`], with the answer.
pub(crate) async fn try_ack(
    provider: &CosmosDBProvider,
    item: &OrchestrationItem,
    token: &str,
    messages: Vec<WorkItem>,
) -> Result<(), ProviderError> {
    let id = item.history.len() as u64 + 1;
    let kind = if id == 1 {
        started("Wait", "")
    } else {
        EventKind::ExternalEvent {
            name: "Event".to_owned(),
            data: String::new(),
        }
    };
    let event = Event::with_event_id(id, item.instance.clone(), 1, None, kind);
    let metadata = metadata_of("Wait");
    provider
        .ack_orchestration_item(token, 1, vec![event], vec![], messages, metadata, vec![])
        .await
}

#[tokio::test(start_paused = true)]
async fn changes_of_another_runtime_are_loaded() {
    let backend = Backend::start_simulated().await;
    let (first, second) = (backend.provider().await, backend.provider().await);
    enqueue(&first, start("shared")).await;
    for (turn, provider) in [&first, &second, &first, &first, &second]
        .into_iter()
        .enumerate()
    {
        if turn > 0 {
            enqueue(provider, event("shared")).await;
        }
        let (item, token) = fetch(provider).await;
        assert_eq!(item.history.len(), turn, "each turn sees all before it");
        assert_eq!(item.messages.len(), 1);
        ack(provider, &item, &token).await;
    }
    backend.stop().await;
}

/// Two runtimes. The first sends an event that is reserved for itself, and has lost the instance.
async fn with_a_reserved_event() -> (Backend, CosmosDBProvider, CosmosDBProvider) {
    let backend = Backend::start_simulated().await;
    let (first, second) = (backend.provider().await, backend.provider().await);
    enqueue(&first, start("shared")).await;
    let (item, token) = fetch(&first).await;
    ack(&first, &item, &token).await;
    enqueue(&second, event("shared")).await;
    let (item, token) = fetch(&second).await;
    ack(&second, &item, &token).await;
    let send = async {
        // The first runtime waits for work, and still has the instance in its cache.
        tokio::time::sleep(Duration::from_millis(10)).await;
        enqueue(&first, named("one")).await;
    };
    let ((item, token), ()) = tokio::join!(fetch(&first), send);
    assert!(try_ack(&first, &item, &token, vec![]).await.is_err());
    (backend, first, second)
}

fn named(data: &str) -> WorkItem {
    event_of("shared", "Event", data)
}

/// Takes turns of "shared" until it has received so many events. Returns their data.
async fn received(provider: &CosmosDBProvider, count: usize) -> Vec<String> {
    let mut received = Vec::new();
    while received.len() < count {
        let (item, token) = fetch(provider).await;
        let data = item.messages.iter().filter_map(|message| match message {
            WorkItem::ExternalRaised { data, .. } => Some(data.clone()),
            _ => None,
        });
        received.extend(data);
        ack(provider, &item, &token).await;
    }
    received
}

#[tokio::test(start_paused = true)]
async fn events_of_a_sender_stay_in_order_when_another_runtime_takes_the_instance() {
    let (backend, first, second) = with_a_reserved_event().await;
    // Not reserved.
    enqueue(&first, named("two")).await;
    assert_eq!(received(&second, 2).await, ["one", "two"]);
    backend.stop().await;
}

/// After the repeated request, the sender knows that the event is stored, and not its version.
#[tokio::test(start_paused = true)]
async fn an_event_with_a_lost_answer_stays_in_order_behind_reserved_ones() {
    let (backend, first, _second) = with_a_reserved_event().await;
    let lost = Fault::once(Effect::StatusAfterEffect { status: 408 });
    let Some(emulator) = backend.emulator() else {
        println!("skipped: needs the emulator");
        return backend.stop().await;
    };
    emulator.inject(lost.on(OperationKind::Create));
    for data in ["two", "three", "four"] {
        enqueue(&first, named(data)).await;
    }
    assert_eq!(received(&first, 4).await, ["one", "two", "three", "four"]);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reserved_start_of_a_dead_runtime_is_found_by_another() {
    let backend = Backend::start_simulated().await;
    let (gone, other) = (backend.provider().await, backend.provider().await);
    // A busy dispatcher, for which the next start is reserved.
    enqueue(&gone, start("begun")).await;
    let _never_committed = fetch(&gone).await;
    enqueue(&gone, start("ahead")).await;
    drop(gone);
    let begun = Instant::now();
    let mut found = Vec::new();
    while found.len() < 2 {
        let (item, token) = fetch(&other).await;
        ack(&other, &item, &token).await;
        found.push(item.instance);
    }
    found.sort();
    assert_eq!(found, ["ahead", "begun"]);
    let took = begun.elapsed();
    assert!(took < LOCK + Duration::from_secs(2), "{took:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reserved_start_that_no_dispatcher_takes_is_found_by_another() {
    let backend = Backend::start_simulated().await;
    let (busy, other) = (backend.provider().await, backend.provider().await);
    // Longer than any test waits.
    let long = Duration::from_secs(3600);
    enqueue(&busy, start("begun")).await;
    let (item, token, _) = next_turn(&busy, long).await;
    enqueue(&busy, start("ahead")).await;
    let (found, _) = fetch(&other).await;
    assert_eq!(found.instance, "ahead");
    ack(&busy, &item, &token).await;
    backend.stop().await;
}

/// Takes turns until one belongs to `instance`. Every other instance sends itself a message, and so
/// always has a next turn.
async fn turns_until(provider: &CosmosDBProvider, instance: &str) {
    loop {
        let (item, token) = fetch(provider).await;
        if item.instance == instance {
            return ack(provider, &item, &token).await;
        }
        let next = event(&item.instance);
        ack_and_send(provider, &item, &token, vec![next]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn instances_that_always_have_a_next_turn_delay_no_other() {
    let backend = Backend::start_simulated().await;
    let (runtime, other) = (backend.provider().await, backend.provider().await);
    for number in 0..8 {
        enqueue(&runtime, start(&format!("always-{number}"))).await;
    }
    let soon = Duration::from_secs(4);
    let busy = tokio::time::timeout(soon / 10, turns_until(&runtime, "none"));
    assert!(busy.await.is_err(), "they always have a next turn");
    enqueue(&other, start("new")).await;
    let found = tokio::time::timeout(soon, turns_until(&runtime, "new"));
    found.await.expect("the start is found");
    enqueue(&runtime, event("new")).await;
    let found = tokio::time::timeout(soon, turns_until(&runtime, "new"));
    found.await.expect("the event is handed out");
    backend.stop().await;
}
