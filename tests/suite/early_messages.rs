//! Messages that overtake the start of an execution wait for it, however late it arrives, and are
//! received in their order. Messages of an instance that never starts go in the end.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::OrchestratorItem;
use cdb_provider::model::Query;
use cdb_tests::Backend;
use duroxide::providers::{ExecutionMetadata, OrchestrationItem, Provider, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, Event, EventKind, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus,
};
use futures::{StreamExt as _, stream};
use tokio::time::{Instant, sleep};

use crate::harness::{end_of, eventually, long_locks, next_turn, no_activities};
use crate::several::{ack, ack_and_send, enqueue, event, start, turn_with};
use crate::warnings::Warnings;
use crate::work_items::{metadata_of, start_of, started};

/// Returns the number of instances of a test: `EARLY_MESSAGES`, or `usual`. The soak is
/// `EARLY_MESSAGES=10000 cargo nextest run -p cdb-tests -E 'test(early_messages)'`.
fn scaled(usual: usize) -> usize {
    let set = std::env::var("EARLY_MESSAGES").ok();
    set.map_or(usual, |count| count.parse().expect("a number"))
}

fn queued(instance: &str, data: impl Into<String>) -> WorkItem {
    WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: "Orders".to_owned(),
        data: data.into(),
    }
}

/// The start of a child of `parent`.
fn child_of(parent: &str, child: &str) -> WorkItem {
    crate::work_items::child_of(parent, start_of(child, "Take"))
}

/// The data of the queued events of a turn, in order.
fn data(turn: &OrchestrationItem) -> Vec<&str> {
    let messages = turn.messages.iter();
    let data = messages.filter_map(|message| match message {
        WorkItem::QueueMessage { data, .. } => Some(&**data),
        _ => None,
    });
    data.collect()
}

/// Takes the number of events in its input, and returns them in the order of their arrival.
fn taker() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Take", crate::samples::events::take)
        .register("Pair", async |ctx: OrchestrationContext, child: String| {
            let started = ctx.schedule_sub_orchestration_with_id("Take", &*child, "1");
            let sent = ctx.schedule_activity("Send", &*child);
            let (taken, sent) = ctx.join2(started, sent).await;
            sent?;
            taken
        })
        .build()
}

/// `Send` queues an event for the instance in its input.
fn sender(client: &Client) -> ActivityRegistry {
    let client = client.clone();
    ActivityRegistry::builder()
        .register("Send", move |_: ActivityContext, child: String| {
            let client = client.clone();
            async move {
                let queued = client.enqueue_event(&*child, "Orders", &*child).await;
                queued
                    .map(|()| String::new())
                    .map_err(|error| error.to_string())
            }
        })
        .build()
}

/// In real time: the event races with the delivery of the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_queued_beside_the_start_of_a_child_are_received() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let backend = Backend::start().await;
    let shared = Arc::new(backend.provider().await);
    let client = Client::new(shared.clone());
    let runtime = Runtime::start_with_options(shared, sender(&client), taker(), long_locks()).await;
    let count = scaled(60);
    let pairs = stream::iter(0..count).map(|number| {
        let client = &client;
        async move {
            let (parent, child) = (format!("pair-{number}"), format!("child-{number}"));
            ok!(client.start_orchestration(&*parent, "Pair", &*child));
            let ended = client.wait_for_orchestration(&parent, PATIENCE).await;
            matches!(ended, Ok(OrchestrationStatus::Completed { output, .. }) if output == child)
        }
    });
    let received = pairs
        .buffer_unordered(32)
        .filter(|received| std::future::ready(*received));
    assert_eq!(received.count().await, count);
    runtime.shutdown(None).await;
    backend.stop().await;
}

/// A backend whose providers deliver no intents that they find.
async fn without_reconciler() -> Backend {
    let year = Duration::from_secs(365 * 24 * 3600);
    Backend::start_simulated_with(|config| config.reconciler_interval = year).await
}

/// Asks a provider for turns for a while. There is none.
async fn nothing_for(provider: &CosmosDBProvider, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        let fetched = provider.fetch_orchestration_item(long(), long(), None);
        let fetched = tokio::time::timeout_at(until, fetched).await;
        let Ok(fetched) = fetched else { return };
        let fetched = fetched.expect("the store answers");
        assert!(fetched.is_none(), "{fetched:?}");
    }
}

fn long() -> Duration {
    Duration::from_secs(60)
}

#[tokio::test(start_paused = true)]
async fn events_wait_for_the_start_of_a_child_whose_parents_process_died() {
    let backend = without_reconciler().await;
    let emulator = or_skip!(backend.emulator(), "only the emulator fails on demand");
    let count = scaled(30);
    let (dying, reader) = (backend.provider().await, backend.provider().await);
    // The process dies between its commits and the deliveries of the starts.
    emulator.inject(Fault::always(Effect::error(503, 0)).on(OperationKind::Bulk));
    for number in 0..count {
        let parent = format!("parent-{number}");
        let (turn, token, _) = turn_with(&dying, start(&parent), long()).await;
        let child = child_of(&parent, &format!("child-{number}"));
        ack_and_send(&dying, &turn, &token, vec![child]).await;
    }
    drop(dying);
    emulator.clear_faults();
    for number in 0..count {
        for event in ["first", "second"] {
            enqueue(&reader, queued(&format!("child-{number}"), event)).await;
        }
    }
    nothing_for(&reader, Duration::from_secs(600)).await;
    let begun = Instant::now();
    let _reconciler = backend
        .provider_with(|config| config.reconciler_interval = Duration::from_secs(1))
        .await;
    for _ in 0..count {
        let (turn, token, attempt) = next_turn(&reader, long()).await;
        assert!(
            turn.messages
                .iter()
                .any(|message| matches!(message, WorkItem::StartOrchestration { .. }))
        );
        assert_eq!(
            (data(&turn), attempt),
            (vec!["first", "second"], 1),
            "{}",
            turn.instance
        );
        ack(&reader, &turn, &token).await;
    }
    // The backoff of an instance without a start is a minute by now.
    let bound = Duration::from_secs(10) + Duration::from_millis(50) * u32::try_from(count).unwrap();
    assert!(begun.elapsed() < bound, "{:?}", begun.elapsed());
    backend.stop().await;
}

/// The numbers below `count`, separated by spaces.
fn numbers(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        let space = if number == 0 { "" } else { " " };
        write!(text, "{space}{number}").expect("a text takes all");
        text
    })
}

#[tokio::test(start_paused = true)]
async fn events_of_an_orchestration_that_is_registered_later_keep_their_order() {
    // More than a load leaves to later turns.
    const EVENTS: usize = 1_200;
    let backend = Backend::start_simulated().await;
    let without = Arc::new(backend.provider().await);
    let client = Client::new(without.clone());
    let options = RuntimeOptions::default;
    let none = OrchestrationRegistry::builder().build();
    let old = Runtime::start_with_options(without, no_activities(), none, options()).await;
    let begun = client.start_orchestration("late", "Take", EVENTS.to_string());
    begun.await.expect("it is started");
    for number in 0..EVENTS - 1 {
        ok!(client.enqueue_event("late", "Orders", number.to_string()));
    }
    sleep(Duration::from_secs(20)).await;
    old.shutdown(None).await;
    let with = Arc::new(backend.provider().await);
    let new = Runtime::start_with_options(with.clone(), no_activities(), taker(), options()).await;
    eventually(async || !with.read("late").await.expect("a history").is_empty()).await;
    // Its process knows the last event at once.
    let last = Client::new(with.clone());
    let queued = last.enqueue_event("late", "Orders", (EVENTS - 1).to_string());
    queued.await.expect("the queue takes it");
    match end_of(&client, "late").await {
        OrchestrationStatus::Completed { output, .. } => assert_eq!(output, numbers(EVENTS)),
        other => panic!("it has not completed: {other:?}"),
    }
    new.shutdown(None).await;
    backend.stop().await;
}

/// Commits the end of the first execution of `again`, which sends `messages`.
async fn continue_as_new(provider: &CosmosDBProvider, token: &str, messages: Vec<WorkItem>) {
    let kinds = [
        started("Take", ""),
        EventKind::OrchestrationContinuedAsNew {
            input: String::new(),
        },
    ];
    let events = (1..).zip(kinds);
    let events = events.map(|(id, kind)| Event::with_event_id(id, "again", 1, None, kind));
    let metadata = ExecutionMetadata {
        status: Some("ContinuedAsNew".to_owned()),
        ..metadata_of("Take")
    };
    let acked = provider.ack_orchestration_item(
        token,
        1,
        events.collect(),
        vec![],
        messages,
        metadata,
        vec![],
    );
    acked.await.expect("the turn is committed");
}

fn next_execution(input: &str) -> WorkItem {
    WorkItem::ContinueAsNew {
        instance: "again".to_owned(),
        orchestration: "Take".to_owned(),
        input: input.to_owned(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: vec![],
        initial_custom_status: None,
    }
}

#[tokio::test(start_paused = true)]
async fn events_keep_their_order_when_a_process_dies_between_two_executions() {
    const EVENTS: usize = 300;
    let backend = Backend::start_simulated().await;
    let (dying, other) = (backend.provider().await, backend.provider().await);
    let (_, token, _) = turn_with(&dying, start_of("again", "Take"), long()).await;
    for number in 0..EVENTS {
        enqueue(&other, queued("again", number.to_string())).await;
    }
    continue_as_new(&dying, &token, vec![next_execution(&EVENTS.to_string())]).await;
    drop(dying);
    let client = Client::new(Arc::new(other.clone()));
    let runtime = Runtime::start_with_options(
        Arc::new(other),
        no_activities(),
        taker(),
        RuntimeOptions::default(),
    )
    .await;
    match end_of(&client, "again").await {
        OrchestrationStatus::Completed { output, .. } => assert_eq!(output, numbers(EVENTS)),
        other => panic!("it has not completed: {other:?}"),
    }
    runtime.shutdown(None).await;
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn messages_between_two_executions_wait_for_the_start_without_attempts() {
    let backend = Backend::start_simulated().await;
    let (first, second) = (backend.provider().await, backend.provider().await);
    let (_, token, _) = turn_with(&first, start_of("again", "Take"), long()).await;
    // As if the start were too large for the commit, and its intent undelivered.
    continue_as_new(&first, &token, vec![]).await;
    for number in 0..70 {
        enqueue(&second, queued("again", number.to_string())).await;
    }
    for provider in [&first, &second] {
        nothing_for(provider, long()).await;
    }
    enqueue(&first, next_execution("")).await;
    let (turn, _, attempt) = next_turn(&second, long()).await;
    assert!(matches!(turn.messages[0], WorkItem::ContinueAsNew { .. }));
    assert_eq!(data(&turn).join(" "), numbers(63));
    assert_eq!(attempt, 1);
    backend.stop().await;
}

/// Returns the number of stored messages of an instance.
async fn stored(provider: &CosmosDBProvider, instance: &str) -> usize {
    let messages = Query::<OrchestratorItem>::in_partition(instance);
    let found = provider.container().query(messages).all().await;
    found.expect("the partition answers").len()
}

#[tokio::test(start_paused = true)]
async fn events_of_an_instance_that_never_starts_are_deleted_after_unclaimed_age() {
    const AGE: Duration = Duration::from_secs(600);
    let backend = Backend::start_simulated_with(|config| config.unclaimed_age = AGE).await;
    let provider = backend.provider().await;
    for number in 0..100 {
        enqueue(&provider, queued("never", number.to_string())).await;
    }
    nothing_for(&provider, AGE / 2).await;
    // Newer ones do not keep the old ones, and are not deleted with them.
    enqueue(&provider, queued("never", "new")).await;
    nothing_for(&provider, (AGE / 2).saturating_sub(long())).await;
    assert_eq!(stored(&provider, "never").await, 101);
    nothing_for(&provider, 3 * long()).await;
    assert_eq!(stored(&provider, "never").await, 1);
    nothing_for(&provider, AGE / 2).await;
    assert_eq!(stored(&provider, "never").await, 0);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_completion_of_a_deleted_instance_goes_although_an_event_waits() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    let end = WorkItem::SubOrchCompleted {
        parent_instance: "deleted".to_owned(),
        parent_execution_id: 1,
        parent_id: 2,
        result: "late".to_owned(),
    };
    enqueue(&provider, queued("deleted", "early")).await;
    enqueue(&provider, end).await;
    nothing_for(&provider, long()).await;
    assert_eq!(stored(&provider, "deleted").await, 1);
    // A new instance of the same id does not receive the completion.
    let (turn, _, _) = turn_with(&provider, start("deleted"), long()).await;
    assert_eq!(turn.messages.len(), 2, "{:?}", turn.messages);
    assert_eq!(data(&turn), ["early"]);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_orchestration_does_not_wait_for_yet_is_reported_as_dropped() {
    let warnings = Warnings::default();
    let _kept = tracing::subscriber::set_default(warnings.clone());
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    let raised = || EventKind::ExternalEvent {
        name: "Go".to_owned(),
        data: String::new(),
    };
    let waits = EventKind::ExternalSubscribed {
        name: "Go".to_owned(),
    };
    enqueue(&provider, start("early")).await;
    let turns = [
        (1, vec![started("Wait", ""), raised(), waits]),
        (4, vec![raised()]),
    ];
    for (first, kinds) in turns {
        let (_, token, _) = next_turn(&provider, long()).await;
        let events = (first..).zip(kinds);
        let events = events.map(|(id, kind)| Event::with_event_id(id, "early", 1, None, kind));
        let (events, metadata) = (events.collect(), metadata_of("Wait"));
        let acked =
            provider.ack_orchestration_item(&token, 1, events, vec![], vec![], metadata, vec![]);
        acked.await.expect("the turn is committed");
        enqueue(&provider, event("early")).await;
    }
    // The second event is received.
    let dropped = warnings.with("has dropped events");
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    assert!(
        dropped[0].contains("early") && dropped[0].contains("dropped=1"),
        "{dropped:?}"
    );
    backend.stop().await;
}
