//! The writes of the provider by name. Each loses its answer once: `writes.md` lists
//! them.

use std::time::Duration;

use cdb_client::retry::RetryConfig;
use cdb_client::{CosmosClient, MasterKey};
use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::Durable;
use cdb_tests::Backend;
use duroxide::providers::{
    DeleteInstanceResult, Provider, ProviderAdmin, SessionFetchConfig, WorkItem,
};
use duroxide::{Event, EventKind};

use crate::harness::{next_activity, next_turn};
use crate::several::{ack, begin, enqueue, event, start, turn_with};

const LOCK: Duration = Duration::from_secs(30);

/// The next write of this kind takes effect, and its answer is lost.
fn lose(backend: &Backend, kind: OperationKind) {
    let emulator: &Emulator = backend.emulator().expect("checked before");
    emulator.inject(Fault::once(Effect::DropAnswer).on(kind));
}

#[tokio::test]
async fn a_lock_with_a_lost_answer_is_held() {
    let (backend, first) = or_skip!(Backend::failing(|_| {}).await);
    enqueue(&first, start("i")).await;
    lose(&backend, OperationKind::Create);
    let (item, token, attempt) = next_turn(&first, LOCK).await;
    assert_eq!(attempt, 1);
    ack(&first, &item, &token).await;
    let second = backend.provider().await;
    enqueue(&second, event("i")).await;
    lose(&backend, OperationKind::Patch);
    let (item, token, attempt) = next_turn(&second, LOCK).await;
    assert_eq!((attempt, item.history.len()), (1, 1));
    ack(&second, &item, &token).await;
    backend.stop().await;
}

#[tokio::test]
async fn a_commit_with_a_lost_answer_applies_once() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    let (item, token, _) = turn_with(&provider, start("i"), LOCK).await;
    lose(&backend, OperationKind::Batch);
    ack(&provider, &item, &token).await;
    assert_eq!(provider.read("i").await.expect("a history").len(), 1);
    let again = provider.abandon_orchestration_item(&token, None, false);
    assert!(again.await.is_err(), "the turn has ended");
    backend.stop().await;
}

#[tokio::test]
async fn a_renewal_with_a_lost_answer_extends_the_lock() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    let (item, token, _) = turn_with(&provider, start("i"), LOCK).await;
    lose(&backend, OperationKind::Patch);
    ok!(provider.renew_orchestration_item_lock(&token, LOCK));
    ack(&provider, &item, &token).await;
    backend.stop().await;
}

#[tokio::test]
async fn an_abandoned_turn_with_a_lost_answer_is_free() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    let (_, token, _) = turn_with(&provider, start("i"), LOCK).await;
    lose(&backend, OperationKind::Batch);
    // Whether the call succeeds or not, the turn has ended here and is free for another runtime.
    let _said = provider
        .abandon_orchestration_item(&token, None, false)
        .await;
    let other = backend.provider().await;
    let (item, token, attempt) = next_turn(&other, LOCK).await;
    assert_eq!(attempt, 2);
    ack(&other, &item, &token).await;
    backend.stop().await;
}

#[tokio::test]
async fn an_event_with_a_lost_answer_arrives_once() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    begin(&provider, "i", LOCK).await;
    lose(&backend, OperationKind::Create);
    let (item, token, _) = turn_with(&provider, event("i"), LOCK).await;
    assert_eq!(item.messages, [event("i")]);
    ack(&provider, &item, &token).await;
    backend.stop().await;
}

fn activity(session: Option<&str>) -> WorkItem {
    crate::work_items::activity_of("i", 2, session)
}

#[tokio::test]
async fn an_activity_survives_a_lost_answer_at_every_step() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    lose(&backend, OperationKind::Create);
    ok!(provider.enqueue_for_worker(activity(None)));
    lose(&backend, OperationKind::Patch);
    let (_, token, attempt) = next_activity(&provider, LOCK, None).await;
    assert_eq!(attempt, 1, "locked once");
    lose(&backend, OperationKind::Patch);
    ok!(provider.renew_work_item_lock(&token, 2 * LOCK));
    lose(&backend, OperationKind::Patch);
    // Whether the call succeeds or not, the activity is free.
    let _said = provider.abandon_work_item(&token, None, false).await;
    let (_, token, attempt) = next_activity(&backend.provider().await, LOCK, None).await;
    assert_eq!(attempt, 2);
    drop(token);
    backend.stop().await;
}

/// The end of the activity.
fn done() -> WorkItem {
    crate::work_items::completion_of("i", 2, "done")
}

/// A provider on the same container, with requests that give up after two seconds.
pub(crate) async fn hasty(emulator: &Emulator, provider: &CosmosDBProvider) -> CosmosDBProvider {
    let hasty = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key()).expect("a key"))
        .retry(RetryConfig::default().with_deadline(Duration::from_secs(2)))
        .build()
        .expect("a client")
        .database("duroxide")
        .container::<Durable>(provider.container().name());
    let provider = CosmosDBProvider::on(hasty, &cdb_tests::settings()).await;
    provider.expect("the container opens")
}

#[tokio::test]
async fn an_activity_ack_is_retried_while_its_lock_is_valid() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    let emulator = backend.emulator().expect("checked before");
    let provider = hasty(emulator, &provider).await;
    ok!(provider.enqueue_for_worker(activity(None)));
    let (_, token, _) = next_activity(&provider, LOCK, None).await;
    emulator.inject(Fault::always(Effect::error(503, 0)));
    let ended = provider.ack_work_item(&token, Some(done()));
    let (ended, ()) = tokio::join!(ended, async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        emulator.clear_faults();
    });
    ended.expect("it has ended");
    backend.stop().await;
}

#[tokio::test]
async fn an_activity_ack_with_a_lost_answer_applies_once() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    ok!(provider.enqueue_for_worker(activity(None)));
    let (_, token, _) = next_activity(&provider, LOCK, None).await;
    let completion = done();
    lose(&backend, OperationKind::Batch);
    ok!(provider.ack_work_item(&token, Some(completion.clone())));
    let (item, ..) = turn_with(&provider, start("i"), LOCK).await;
    let completions = item
        .messages
        .iter()
        .filter(|message| **message == completion);
    assert_eq!(completions.count(), 1);
    backend.stop().await;
}

#[tokio::test]
async fn a_session_is_claimed_renewed_and_removed_once() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    let config = SessionFetchConfig {
        owner_id: "worker".to_owned(),
        lock_timeout: LOCK,
    };
    ok!(provider.enqueue_for_worker(activity(Some("s"))));
    lose(&backend, OperationKind::Batch);
    let (_, token, attempt) = next_activity(&provider, LOCK, Some(&config)).await;
    assert_eq!(attempt, 1, "claimed and locked at once");
    lose(&backend, OperationKind::Patch);
    let renew = async |time| provider.renew_session_lock(&["worker"], time, LOCK).await;
    // The runtime repeats a renewal without an answer.
    let renewed = match renew(LOCK).await {
        Err(error) if error.is_retryable() => renew(LOCK).await,
        renewed => renewed,
    };
    assert_eq!(renewed.expect("it is renewed"), 1);
    // The test waits for the end of this one.
    let short = Duration::from_millis(300);
    assert_eq!(renew(short).await.expect("it is renewed"), 1);
    ok!(provider.ack_work_item(&token, None));
    tokio::time::sleep(short * 2).await;
    lose(&backend, OperationKind::Delete);
    let mut removed = provider.cleanup_orphaned_sessions(Duration::ZERO).await;
    if removed.is_err() {
        removed = provider.cleanup_orphaned_sessions(Duration::ZERO).await;
    }
    assert!(removed.expect("it is cleaned up") <= 1);
    let left = provider.cleanup_orphaned_sessions(Duration::ZERO).await;
    assert_eq!(left.expect("nothing to do"), 0);
    backend.stop().await;
}

fn appended(id: u64) -> Event {
    let kind = EventKind::ExternalEvent {
        name: "Event".to_owned(),
        data: String::new(),
    };
    Event::with_event_id(id, "i".to_owned(), 1, None, kind)
}

#[tokio::test]
async fn an_event_appended_twice_is_stored_once() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    lose(&backend, OperationKind::Batch);
    // The caller repeats a call without an answer.
    let _unheard = provider
        .append_with_execution("i", 1, vec![appended(1)])
        .await;
    ok!(provider.append_with_execution("i", 1, vec![appended(1)]));
    let history = provider.read_with_execution("i", 1).await;
    assert_eq!(history.expect("a history").len(), 1);
    backend.stop().await;
}

#[tokio::test]
async fn a_deletion_in_several_batches_is_counted_once() {
    const EVENTS: u64 = 230;
    for (kind, after) in [
        (OperationKind::Replace, 0),
        (OperationKind::Batch, 0),
        (OperationKind::Batch, 1),
        (OperationKind::Batch, 2),
    ] {
        let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
        begin(&provider, "i", LOCK).await;
        for id in 2..=EVENTS {
            ok!(provider.append_with_execution("i", 1, vec![appended(id)]));
        }
        let emulator = backend.emulator().expect("checked before");
        emulator.inject(Fault::once(Effect::DropAnswer).on(kind).after(after));
        let deleted = provider
            .delete_instances_atomic(&["i".to_owned()], true)
            .await;
        let DeleteInstanceResult { events_deleted, .. } = deleted.expect("it is deleted");
        assert_eq!(events_deleted, EVENTS, "{kind} {after}");
        backend.stop().await;
    }
}
