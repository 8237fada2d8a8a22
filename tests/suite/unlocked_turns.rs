//! Turns that begin without a stored lock, because their messages are reserved for the runtime that
//! wrote them. Time is simulated.

use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{Instance, InstanceKey};
use cdb_tests::Backend;
use duroxide::providers::{OrchestrationItem, Provider, ProviderError};
use tokio::time::sleep;

use crate::harness::{finds_turn, next_turn};
use crate::several::{ack, enqueue, event, start, turn_with};

/// The duration of locks; other runtimes wait until they expire.
const LOCK: Duration = Duration::from_secs(5);

/// Longer than a reservation.
const AFTER_RESERVATION: Duration = Duration::from_millis(1200);

/// A runtime with a busy dispatcher, for which it reserves the starts that it writes.
async fn busy(backend: &Backend) -> CosmosDBProvider {
    let provider = backend.provider().await;
    let _runs = turn_with(&provider, start("busy"), Duration::from_secs(3600)).await;
    provider
}

async fn stored(provider: &CosmosDBProvider, instance: &str) -> Option<Instance> {
    let read = provider.container().read(&InstanceKey::new(instance)).await;
    read.expect("a read").map(|stored| stored.document)
}

/// The first turn of a reserved start.
async fn first_turn(
    provider: &CosmosDBProvider,
    instance: &str,
) -> (OrchestrationItem, String, u32) {
    enqueue(provider, start(instance)).await;
    next_turn(provider, LOCK).await
}

/// Whether a runtime finds no turn for the time of a lock.
async fn finds_none(provider: &CosmosDBProvider, time: Duration) -> bool {
    !finds_turn(provider, LOCK, time).await
}

async fn refused(
    provider: &CosmosDBProvider,
    item: &OrchestrationItem,
    token: &str,
) -> ProviderError {
    let metadata = crate::work_items::metadata_of("Wait");
    let committed = provider
        .ack_orchestration_item(
            token,
            item.execution_id,
            vec![],
            vec![],
            vec![],
            metadata,
            vec![],
        )
        .await;
    committed.expect_err("another runtime has changed the instance")
}

#[tokio::test(start_paused = true)]
async fn a_short_turn_of_a_reserved_message_stores_no_lock() {
    let backend = Backend::start_simulated().await;
    let provider = busy(&backend).await;
    let (item, token, attempt) = first_turn(&provider, "new").await;
    assert_eq!((item.instance.as_str(), attempt), ("new", 1));
    assert!(stored(&provider, "new").await.is_none());
    ack(&provider, &item, &token).await;
    let after = stored(&provider, "new").await.expect("it is created");
    assert!(after.attempts.is_empty());

    let (item, token, _) = turn_with(&provider, event("new"), LOCK).await;
    let during = stored(&provider, "new").await.expect("it exists");
    assert_eq!(during.lock_token, None);
    ack(&provider, &item, &token).await;
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_longer_than_its_reservation_stores_its_lock() {
    let backend = Backend::start_simulated().await;
    let (provider, other) = (busy(&backend).await, backend.provider().await);
    let (item, token, _) = first_turn(&provider, "long").await;
    assert!(finds_none(&other, AFTER_RESERVATION).await);
    let during = stored(&provider, "long").await.expect("it is created");
    assert_eq!(during.lock_token.as_deref(), Some(token.as_str()));
    assert_eq!(during.attempts.values().copied().collect::<Vec<_>>(), [1]);
    ack(&provider, &item, &token).await;
    let after = stored(&provider, "long").await.expect("it exists");
    assert_eq!(after.lock_token, None);
    assert!(after.attempts.is_empty());
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_runtime_keeps_its_reserved_messages_from_others_for_a_second() {
    let backend = Backend::start_simulated().await;
    let (provider, other) = (busy(&backend).await, backend.provider().await);
    let (_runs, ..) = first_turn(&provider, "left").await;
    drop(provider);
    let found = tokio::time::timeout(Duration::from_secs(3), next_turn(&other, LOCK)).await;
    let (item, token, attempt) = found.expect("another runtime finds the start");
    assert_eq!((item.instance.as_str(), attempt), ("left", 1));
    ack(&other, &item, &token).await;
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_locks_the_instance_meanwhile_wins() {
    let backend = Backend::start_simulated().await;
    let (provider, other) = (busy(&backend).await, backend.provider().await);
    let (item, token, _) = first_turn(&provider, "shared").await;
    ack(&provider, &item, &token).await;
    let (early, token, _) = turn_with(&provider, event("shared"), LOCK).await;
    let (item, late, _) = turn_with(&other, event("shared"), LOCK).await;
    assert_eq!(item.messages.len(), 2, "it takes the reserved message too");
    let error = refused(&provider, &early, &token).await;
    assert!(error.message.contains("another runtime"), "{error}");
    ack(&other, &item, &late).await;
    assert!(finds_none(&provider, LOCK / 2).await);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_attempt_of_an_abandoned_turn_counts() {
    let backend = Backend::start_simulated().await;
    let provider = busy(&backend).await;
    let (item, token, _) = first_turn(&provider, "abandoned").await;
    ok!(provider.abandon_orchestration_item(&token, None, false));
    let (again, token, attempt) = next_turn(&provider, LOCK).await;
    assert_eq!((&again.instance, attempt), (&item.instance, 2));
    ok!(provider.abandon_orchestration_item(&token, None, true));
    let (again, token, attempt) = next_turn(&provider, LOCK).await;
    assert_eq!(attempt, 2, "an ignored attempt does not count");
    ack(&provider, &again, &token).await;
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_never_ended_is_handed_out_again_with_a_lock() {
    let backend = Backend::start_simulated().await;
    let provider = busy(&backend).await;
    let (_, first, _) = first_turn(&provider, "hangs").await;
    sleep(LOCK).await;
    let (item, token, attempt) = next_turn(&provider, LOCK).await;
    assert_eq!((item.instance.as_str(), attempt), ("hangs", 2));
    assert_ne!(token, first);
    ack(&provider, &item, &token).await;
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_of_an_instance_goes_before_a_burst_of_starts() {
    let backend = Backend::start_simulated().await;
    let provider = busy(&backend).await;
    let (item, token, _) = first_turn(&provider, "begun").await;
    ack(&provider, &item, &token).await;
    for number in 0..10 {
        enqueue(&provider, start(&format!("new-{number}"))).await;
    }
    let (item, ..) = turn_with(&provider, event("begun"), LOCK).await;
    assert_eq!(item.instance, "begun");
    backend.stop().await;
}
