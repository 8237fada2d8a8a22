//! Undeliverable messages between instances: retried a few times, kept with the reason, and no
//! obstacle for others.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_provider::coordination::RetryPolicy;
use cdb_provider::documents::{
    Instance, InstanceKey, IntentItem, IntentQueue, NEVER, OutboxIntent, OutboxIntentKey, Text,
};
use cdb_provider::model::{ETag, Stored, Timestamp};
use cdb_tests::Backend;
use duroxide::providers::WorkItem;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{eventually, long_locks, until_some};

/// An intent of a foreign program, whose contents cannot be read.
fn unreadable(provider: &CosmosDBProvider) -> OutboxIntent {
    let now = provider.container().now();
    OutboxIntent {
        payload: Some("this is no document".to_owned()),
        ..OutboxIntent::new("sender", "k".to_owned(), "receiver", now)
    }
}

/// Waits for the given-up intent, in another version than `before`.
async fn given_up(provider: &CosmosDBProvider, before: Option<&ETag>) -> (OutboxIntent, ETag) {
    until_some(async || {
        let mut found = provider.undeliverable(10).await.expect("they can be read");
        let stored = found.pop().filter(|stored| Some(&stored.etag) != before)?;
        Some((stored.document, stored.etag))
    })
    .await
}

/// A store that gives up after three attempts.
async fn impatient() -> Backend {
    Backend::start_with(|config| {
        config.delivery_retry = RetryPolicy::default()
            .with_delays(Duration::from_millis(10), Duration::from_millis(20))
            .with_max_attempts(3);
    })
    .await
}

#[tokio::test]
async fn a_delivery_failure_noted_with_a_lost_answer_counts_once() {
    let backend = impatient().await;
    let Some(emulator) = backend.emulator() else {
        eprintln!("skipped: faults need the emulator");
        return;
    };
    let provider = backend.provider().await;
    let created = provider.container().create(&unreadable(&provider)).await;
    created.expect("it is new");
    emulator.inject(Fault::always(Effect::DropAnswer).on(OperationKind::Patch));
    let (intent, _) = given_up(&provider, None).await;
    assert_eq!(intent.attempt_count, 3);
    assert!(intent.failure.is_some());
    backend.stop().await;
}

#[tokio::test]
async fn an_operator_action_with_a_lost_answer_applies_once() {
    let backend = impatient().await;
    let Some(emulator) = backend.emulator() else {
        eprintln!("skipped: faults need the emulator");
        return;
    };
    let provider = backend.provider().await;
    let created = provider.container().create(&unreadable(&provider)).await;
    created.expect("it is new");
    let (_, version) = given_up(&provider, None).await;
    let found = provider.undeliverable(10).await.expect("they can be read");
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Patch));
    let again = provider.deliver_again(&found[0]).await;
    again.expect("it was tried again");
    given_up(&provider, Some(&version)).await;

    let found = provider.undeliverable(10).await.expect("they can be read");
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    let discarded = provider.discard(&found[0]).await;
    discarded.expect("it is gone");
    let left = provider.undeliverable(10).await.expect("they can be read");
    assert!(left.is_empty(), "{left:?}");
    let again = provider.discard(&found[0]).await;
    assert!(again.is_err(), "a missing intent was discarded");
    backend.stop().await;
}

#[tokio::test]
async fn an_unreadable_intent_is_given_up_with_its_reason_and_can_be_tried_again() {
    let backend = impatient().await;
    let provider = backend.provider().await;
    let container = provider.container();
    container
        .create(&unreadable(&provider))
        .await
        .expect("it is new");

    let (intent, version) = given_up(&provider, None).await;
    assert_eq!(intent.attempt_count, 3);
    assert_eq!(intent.created_at, NEVER);
    assert!(
        intent
            .failure
            .is_some_and(|failure| failure.contains("expected"))
    );
    assert_eq!(intent.payload.as_deref(), Some("this is no document"));

    let found = provider.undeliverable(10).await.expect("they can be read");
    provider
        .deliver_again(&found[0])
        .await
        .expect("it is there");
    // The intent is still unreadable.
    let (intent, _) = given_up(&provider, Some(&version)).await;
    assert_eq!(intent.attempt_count, 3);
    assert!(intent.created_at > Timestamp::default());
    backend.stop().await;
}

/// Takes messages without end, and reports how many it has.
fn listener() -> OrchestrationRegistry {
    let listen = |ctx: OrchestrationContext, _: String| async move {
        for taken in 1_u32.. {
            ctx.dequeue_event("messages").await;
            ctx.set_custom_status(taken.to_string());
        }
        Ok(String::new())
    };
    OrchestrationRegistry::builder()
        .register("Listener", listen)
        .build()
}

/// Delivers the same message to the listener again, by the same intent, and waits until it is
/// delivered.
async fn deliver(provider: &CosmosDBProvider) {
    let message = WorkItem::QueueMessage {
        instance: "listener".to_owned(),
        name: "messages".to_owned(),
        data: "hello".to_owned(),
    };
    let container = provider.container();
    let mut intent = OutboxIntent::new("sender", "k".to_owned(), "listener", container.now());
    intent.items.push(IntentItem {
        queue: IntentQueue::Orchestrator,
        work_item: Text::Inline(serde_json::to_string(&message).expect("it is JSON")),
        visible_at: Timestamp::default(),
    });
    container.create(&intent).await.expect("it is new");
    let key = OutboxIntentKey::new("sender", "k");
    eventually(async || container.read(&key).await.expect("it answers").is_none()).await;
}

/// Waits until the listener is unlocked and in the wanted state.
async fn at_rest(
    provider: &CosmosDBProvider,
    wanted: impl Fn(&Stored<Instance>) -> bool,
) -> Stored<Instance> {
    let key = InstanceKey::new("listener");
    until_some(async || {
        let found = provider.container().read(&key).await.expect("it answers");
        found.filter(|stored| stored.document.lock_token.is_none() && wanted(stored))
    })
    .await
}

#[tokio::test]
async fn a_lock_taken_for_a_second_delivery_leaves_no_attempt_behind() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    let runtime = Runtime::start_with_options(
        Arc::new(provider.clone()),
        ActivityRegistry::builder().build(),
        listener(),
        long_locks(),
    )
    .await;
    let client = Client::new(Arc::new(provider.clone()));
    let started = client.start_orchestration("listener", "Listener", "").await;
    started.expect("it is new");
    deliver(&provider).await;
    let heard = |stored: &Stored<Instance>| stored.document.custom_status.is_some();
    let before = at_rest(&provider, heard).await;

    // The message is consumed. Its second delivery conflicts, but it took the lock in the same
    // batch.
    deliver(&provider).await;
    let after = at_rest(&provider, |stored| stored.etag != before.etag).await;

    let status = after.document.custom_status.clone();
    let status = status.map(|status| provider.decode(status));
    assert_eq!(status.as_deref(), Some("1"));
    assert!(after.document.attempts.is_empty(), "{after:?}");
    runtime.shutdown(None).await;
    backend.stop().await;
}
