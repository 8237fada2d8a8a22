//! Undeliverable messages between instances: retried a few times, kept with the reason, and no
//! obstacle for others.

use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_provider::coordination::retry::RetryPolicy;
use cdb_provider::documents::{NEVER, OutboxIntent};
use cdb_provider::model::{Document as _, ETag, Timestamp};
use cdb_tests::Backend;

use crate::harness::until_some;

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
    let emulator = or_skip!(backend.emulator(), "faults need the emulator");
    let provider = backend.provider().await;
    let created = provider
        .container()
        .run(unreadable(&provider).create())
        .await;
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
    let emulator = or_skip!(backend.emulator(), "faults need the emulator");
    let provider = backend.provider().await;
    let created = provider
        .container()
        .run(unreadable(&provider).create())
        .await;
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
        .run(unreadable(&provider).create())
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
    ok!(provider.deliver_again(&found[0]));
    // The intent is still unreadable.
    let (intent, _) = given_up(&provider, Some(&version)).await;
    assert_eq!(intent.attempt_count, 3);
    assert!(intent.created_at > Timestamp::default());
    backend.stop().await;
}
