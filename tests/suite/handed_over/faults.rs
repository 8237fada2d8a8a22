//! What may go wrong between an acknowledgement and the commit of its turn.

use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::TreeScope;
use duroxide::providers::{ExecutionMetadata, Provider, TagFilter};
use tokio::time::{Instant, sleep};

use super::stage::{INSTANCE, LOCK, MOMENT, SOON, Stage};
use crate::harness::{finds_turn, next_turn};
use crate::several::{ack, event, turn_with};

/// A turn that takes a completion, whose commit loses a request or an answer.
async fn commits_in_spite_of(effect: Effect) {
    let stage = or_skip!(Stage::with_activities(1).await);
    let (acknowledged, turn) = stage.taken().await;
    let lost = Fault::once(effect).on(OperationKind::Batch);
    stage.emulator().inject(lost);
    stage.commit(&turn, None).await.expect("it is committed");
    acknowledged.await.expect("no panic").expect("it has ended");
    assert_eq!(
        (stage.activities().await, stage.completions().await),
        (0, 1)
    );
    assert!(stage.messages().await.is_empty());
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_the_commit_is_lost() {
    commits_in_spite_of(Effect::DropAnswer).await;
}

#[tokio::test(start_paused = true)]
async fn the_request_of_the_commit_is_lost() {
    commits_in_spite_of(Effect::DropRequest).await;
}

/// Otherwise the wait could outlast the lock, and another worker would run the activity.
#[tokio::test(start_paused = true)]
async fn the_completion_of_a_lock_that_ends_soon_is_stored() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let lock = Duration::from_secs(2);
    let activity = stage.activity_for(lock).await;
    sleep(lock.saturating_sub(MOMENT * 400)).await;
    let turn = stage.dispatcher().await;
    let acknowledged = stage.acknowledge(activity);
    acknowledged
        .await
        .expect("no panic")
        .expect("it needs no turn");
    let turn = turn.await.expect("a turn");
    stage.commit(&turn, None).await.expect("it is committed");
    stage.ends_with(0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn another_runtime_commits_first() {
    let stage = or_skip!(Stage::patient(1).await);
    let (acknowledged, turn) = stage.taken().await;
    let other = &stage.other;
    let (item, token, _) = turn_with(other, event(INSTANCE), LOCK).await;
    ack(other, &item, &token).await;
    let lost = Instant::now();
    assert!(stage.commit(&turn, None).await.is_err());
    acknowledged.await.expect("no panic").expect("it is stored");
    assert!(lost.elapsed() < SOON, "no turn has it any more");
    let (item, token, _) = next_turn(other, LOCK).await;
    assert_eq!(item.messages.len(), 1);
    ack(other, &item, &token).await;
    assert!(stage.messages().await.is_empty());
    assert_eq!(stage.activities().await, 0);
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_turn_is_rejected_and_fails_the_orchestration() {
    let stage = or_skip!(Stage::with(1, |config| config.max_value_bytes = 100_000).await);
    let (acknowledged, (item, token, _)) = stage.taken().await;
    let large = "x".repeat(200_000);
    let rejected = stage.commit_with(&item, &token, &large, None).await;
    assert!(!rejected.expect_err("it is too large").is_retryable());
    stage
        .commit_with(&item, &token, "small", None)
        .await
        .expect("the failure");
    acknowledged.await.expect("no panic").expect("it has ended");
    assert_eq!(
        (stage.activities().await, stage.completions().await),
        (0, 1)
    );
    assert!(stage.messages().await.is_empty());
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_turn_delays_the_completion() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let (acknowledged, (item, token, _)) = stage.taken().await;
    assert_eq!(item.messages.len(), 1);
    let delay = Duration::from_millis(500);
    stage.abandon(&token, Some(delay), true).await;
    acknowledged.await.expect("no panic").expect("it is stored");
    assert!(
        !finds_turn(&stage.provider, LOCK, delay.saturating_sub(MOMENT * 30)).await,
        "it is delayed"
    );
    let (item, _, attempt) = next_turn(&stage.provider, LOCK).await;
    assert_eq!((item.messages.len(), attempt), (1, 1));
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_activity_is_renewed_while_it_waits() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let activity = stage.activity().await;
    let token = activity.1.clone();
    let turn = stage.dispatcher().await;
    let acknowledged = stage.acknowledge(activity);
    let turn = turn.await.expect("a turn");
    stage.emulator().reset_requests();
    let renewed = stage.provider.renew_work_item_lock(&token, LOCK * 2);
    let renewed = tokio::time::timeout(MOMENT, renewed).await;
    renewed.expect("at once").expect("it is renewed");
    assert_eq!(stage.requests(OperationKind::Patch), 1);
    assert!(!acknowledged.is_finished());
    stage
        .commit(&turn, None)
        .await
        .expect("under the new version");
    acknowledged.await.expect("no panic").expect("it has ended");
    stage.ends_with(0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_consumes_the_completion_of_a_dropped_acknowledgement() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let (acknowledged, turn) = stage.taken().await;
    acknowledged.abort();
    sleep(MOMENT).await;
    stage.commit(&turn, None).await.expect("it is committed");
    stage.ends_with(0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_back_a_completion_that_waits() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let (acknowledged, turn) = stage.taken().await;
    let other = &stage.other;
    ok!(other.pause(INSTANCE, TreeScope::Tree, "ada"));
    assert!(stage.commit(&turn, None).await.is_err(), "it is paused");
    acknowledged.await.expect("no panic").expect("it is stored");
    assert!(
        !finds_turn(&stage.provider, LOCK, LOCK).await,
        "it is held back"
    );
    ok!(other.resume(INSTANCE, TreeScope::Tree));
    let turn = next_turn(&stage.provider, LOCK).await;
    assert_eq!(turn.0.messages.len(), 1);
    stage.commit(&turn, None).await.expect("it is committed");
    stage.ends_with(0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_long_activity_begins_no_turn_of_a_paused_instance() {
    let stage = or_skip!(Stage::patient(1).await);
    let activity = stage.activity().await;
    sleep(Duration::from_secs(2)).await;
    ok!(stage.other.pause(INSTANCE, TreeScope::Tree, "ada"));
    let turn = stage.dispatcher().await;
    let acknowledged = stage.acknowledge(activity).await.expect("no panic");
    acknowledged.expect("it is stored");
    sleep(LOCK).await;
    assert!(!turn.is_finished(), "it is paused");
    ok!(stage.other.resume(INSTANCE, TreeScope::Tree));
    let turn = turn.await.expect("a turn");
    stage.commit(&turn, None).await.expect("it is committed");
    stage.ends_with(0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_does_not_wait_for_a_completion_that_is_being_stored_for_long() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let (acknowledged, turn) = stage.taken().await;
    stage
        .emulator()
        .inject(Fault::always(Effect::throttled(MOMENT * 5)).on(OperationKind::Batch));
    // The acknowledgement begins to store the completion.
    sleep(MOMENT * 25).await;
    let begun = Instant::now();
    let committed = stage.commit(&turn, None).await;
    assert!(
        committed.is_err() && begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    stage.emulator().clear_faults();
    let _detached = acknowledged.await.expect("no panic");
    // Both go on without their callers.
    for _ in 0..100 {
        if stage.completions().await == 1 {
            break;
        }
        sleep(MOMENT * 100).await;
    }
    stage.ends_with(0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_stores_a_completion_that_waits() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let (acknowledged, _turn) = stage.taken().await;
    stage.provider.shutdown(Duration::from_secs(5)).await;
    acknowledged.await.expect("no panic").expect("it is stored");
    assert!(stage.nothing_to_run().await, "it has run");
    let other = &stage.other;
    let (item, token, _) = next_turn(other, LOCK).await;
    assert_eq!(item.messages.len(), 1);
    ack(other, &item, &token).await;
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_completion_of_an_activity_that_the_turn_cancels_goes() {
    let stage = or_skip!(Stage::with_activities(2).await);
    let (first, second) = (stage.activity().await, stage.activity().await);
    let cancelled = first.0;
    let running = turn_with(&stage.provider, event(INSTANCE), LOCK).await;
    let next = stage.dispatcher().await;
    let (late, taken) = (stage.acknowledge(first), stage.acknowledge(second));
    sleep(MOMENT).await;
    ok!(stage.commit(&running, Some(cancelled)));
    let turn = next.await.expect("a turn");
    assert_eq!(turn.0.messages.len(), 1, "without the cancelled one");
    stage.commit(&turn, None).await.expect("it is committed");
    taken.await.expect("no panic").expect("it has ended");
    // Stored before the cancellation was delivered, or refused after it.
    let _stored_or_lost = late.await.expect("no panic");
    assert_eq!(stage.activities().await, 0);
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_instance_ends_without_the_completion() {
    let stage = or_skip!(Stage::patient(1).await);
    let activity = stage.activity().await;
    let (_, token, _) = turn_with(&stage.provider, event(INSTANCE), LOCK).await;
    let next = stage.dispatcher().await;
    let acknowledged = stage.acknowledge(activity);
    sleep(MOMENT).await;
    let metadata = ExecutionMetadata {
        status: Some("Completed".to_owned()),
        output: Some(String::new()),
        ..ExecutionMetadata::default()
    };
    let none = (vec![], vec![], vec![], vec![]);
    let ended = stage
        .provider
        .ack_orchestration_item(&token, 1, none.0, none.1, none.2, metadata, none.3);
    ended.await.expect("it is committed");
    let begun = Instant::now();
    acknowledged.await.expect("no panic").expect("it is stored");
    assert!(begun.elapsed() < SOON, "no turn will take it");
    drop(next);
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_prelock_that_fails_does_not_lose_the_turn() {
    let stage = or_skip!(Stage::with_activities(2).await);
    let activity = stage.activity().await;
    // The other is not reserved any more.
    sleep(Duration::from_millis(600)).await;
    let turn = stage.dispatcher().await;
    let acknowledged = stage.acknowledge(activity);
    let turn = turn.await.expect("a turn");
    let other = &stage.other;
    let fetched = other.fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any);
    let _taken = fetched.await.expect("fetch").expect("an activity");
    stage
        .commit(&turn, None)
        .await
        .expect("without the prelock");
    acknowledged.await.expect("no panic").expect("it has ended");
    stage.ends_with(1, 1).await;
}
