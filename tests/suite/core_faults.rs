//! Faults that ended in a lost activity or a lost lock.

use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{InstanceKey, OrchestratorItem};
use cdb_provider::model::Query;
use cdb_provider::model::query::Filter;
use cdb_tests::Backend;
use duroxide::providers::{OrchestrationItem, Provider, TagFilter};

use crate::ambiguity::each_write::hasty;
use crate::harness::{eventually, finds_activity, finds_turn, next_activity, next_turn};
use crate::locks::{activity, completed};
use crate::network::{BATCH, CREATE, Network, on_network};
use crate::several::{ack, ack_and_send, begin, enqueue, event, start, turn_with};

const LOCK: Duration = Duration::from_secs(60);

/// What a renewal asks for: more than is left, even while the clock stands still for a correction.
const LONGER: Duration = Duration::from_secs(120);

/// Refuses the next patch for a reason that the client does not retry: an administrator's limit.
fn refuse_patches() -> Fault {
    let refused = Effect::error(403, 1028);
    Fault::with_probability(refused, 1.0).on(OperationKind::Patch)
}

/// A store, and a provider with the token of an activity whose renewal the store has refused.
async fn after_a_refused_renewal() -> Option<(Backend, CosmosDBProvider, String)> {
    let (backend, provider) = Backend::failing(|_| {}).await?;
    let emulator = backend.emulator()?;
    ok!(provider.enqueue_for_worker(activity()));
    let (_, token, _) = next_activity(&provider, LOCK, None).await;
    emulator.inject(refuse_patches());
    let renewed = provider.renew_work_item_lock(&token, LONGER).await;
    emulator.clear_faults();
    assert!(renewed.is_err(), "the renewal was refused");
    Some((backend, provider, token))
}

#[tokio::test]
async fn an_activity_whose_renewal_failed_is_abandoned_when_acknowledged_without_a_result() {
    let (backend, provider, token) = or_skip!(after_a_refused_renewal().await);
    ok!(provider.ack_work_item(&token, None));
    let other = backend.provider().await;
    let fetched = ok!(other.fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any));
    let (item, _, attempt) = fetched.expect("the activity is still there");
    assert_eq!((item, attempt), (activity(), 1));
    backend.stop().await;
}

#[tokio::test]
async fn an_activity_whose_renewal_failed_can_still_be_completed() {
    let (backend, provider, token) = or_skip!(after_a_refused_renewal().await);
    ok!(provider.ack_work_item(&token, Some(completed("late"))));
    let is_left = finds_activity(&provider, LOCK, Duration::ZERO).await;
    assert!(!is_left, "the activity has ended");
    backend.stop().await;
}

/// A lock that is short for a test and long for a request.
const SHORT: Duration = Duration::from_secs(3);

/// Starts the instance `i` and fetches its first turn.
async fn first_turn(provider: &CosmosDBProvider, lock: Duration) -> (OrchestrationItem, String) {
    let (item, token, _) = turn_with(provider, start("i"), lock).await;
    (item, token)
}

/// Commits while `other` fetches the same instance until the commit has ended. Batches fail for
/// twice the lock time.
async fn commits_before(fail: impl FnOnce(&Network, &Emulator)) {
    let (backend, network, slow) = or_skip!(on_network().await);
    let emulator = backend.emulator().expect("not on an account");
    let other = backend.provider().await;
    let (item, token) = first_turn(&slow, SHORT).await;
    fail(&network, emulator);
    let commit = ack(&slow, &item, &token);
    let recovers = async {
        tokio::time::sleep(SHORT * 2).await;
        network.repair();
        emulator.clear_faults();
    };
    let rival = async {
        loop {
            let fetched = other.fetch_orchestration_item(SHORT, Duration::from_millis(200), None);
            let fetched = fetched.await.expect("fetch");
            assert!(fetched.is_none(), "another runtime took the instance");
        }
    };
    tokio::select! {
        biased;
        ((), ()) = async { tokio::join!(commit, recovers) } => {}
        () = rival => {}
    }
    let history = other.read("i").await.expect("a history");
    assert_eq!(history.len(), 1);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_an_answer_keeps_its_lock() {
    commits_before(|network, _| network.swallow(BATCH)).await;
}

#[tokio::test(start_paused = true)]
async fn a_throttled_commit_keeps_its_lock() {
    let throttled =
        Fault::always(Effect::throttled(Duration::from_millis(5))).on(OperationKind::Batch);
    commits_before(|_, emulator| emulator.inject(throttled)).await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_does_not_wait_for_a_commit() {
    let (backend, network, provider) = or_skip!(on_network().await);
    let lock = Duration::from_secs(15);
    let (item, token) = first_turn(&provider, lock).await;
    network.swallow(BATCH);
    let commit = ack(&provider, &item, &token);
    let renewal = async {
        let renewed = provider.renew_orchestration_item_lock(&token, lock);
        // Shorter than one send of the commit.
        let renewed = tokio::time::timeout(lock / 6, renewed).await;
        network.repair();
        renewed
            .expect("at once")
            .expect("the commit keeps the lock");
    };
    tokio::join!(commit, renewal);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_reached_its_commit_costs_no_attempt() {
    let (backend, network, killed) = or_skip!(on_network().await);
    let (item, token) = first_turn(&killed, SHORT).await;
    let instance = async || {
        let read = killed.container().read(&InstanceKey::new("i")).await;
        read.expect("it is read").expect("it exists").document
    };
    let locked_until = instance().await.locked_until;
    network.swallow(BATCH);
    let renewed = eventually(async || instance().await.locked_until > locked_until);
    tokio::select! {
        () = ack(&killed, &item, &token) => panic!("the store does not answer"),
        () = renewed => {}
    }
    let other = backend.provider().await;
    let (_, _, attempt) = next_turn(&other, LOCK).await;
    assert_eq!(attempt, 1);
    backend.stop().await;
}

#[tokio::test]
async fn the_next_turn_follows_a_commit_with_a_lost_answer() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    let emulator = backend.emulator().expect("checked before");
    let provider = hasty(emulator, &provider).await;
    let (item, token) = first_turn(&provider, LOCK).await;
    // The commit takes effect. Its answer is lost, and so is the answer to the first read that
    // checks it.
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    let away = Effect::error(503, 0);
    emulator.inject(Fault::always(away).on(OperationKind::Read));
    let commit = ack_and_send(&provider, &item, &token, vec![event("i")]);
    let ((), ()) = tokio::join!(commit, async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        emulator.clear_faults();
    });
    let fetched = provider.fetch_orchestration_item(LOCK, LOCK / 3, None);
    let (item, ..) = fetched
        .await
        .expect("fetch")
        .expect("the next turn is free");
    assert_eq!(item.messages, [event("i")]);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_consumed_before_its_enqueue_was_answered_is_not_redelivered() {
    let (backend, network, provider) = or_skip!(on_network().await);
    let (item, token) = first_turn(&provider, LOCK).await;
    ack(&provider, &item, &token).await;
    network.answer_late(CREATE, Duration::from_secs(5));
    tokio::join!(enqueue(&provider, event("i")), async {
        let (item, token, _) = next_turn(&provider, LOCK).await;
        assert_eq!(item.messages, [event("i")]);
        ack(&provider, &item, &token).await;
    });
    let again = provider.fetch_orchestration_item(LOCK, Duration::from_secs(5), None);
    let again = again.await.expect("fetch");
    assert!(again.is_none(), "{again:?}");
    backend.stop().await;
}

#[tokio::test]
async fn an_abandoned_turn_releases_its_lock_although_its_message_is_gone() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    let (_, token) = first_turn(&provider, LOCK).await;
    let messages = Query::<OrchestratorItem>::in_partition("i");
    let messages = provider.container().query(messages.filter(Filter::all()));
    for message in messages.all().await.expect("the messages") {
        ok!(provider.container().run(message.delete()));
    }
    let delay = Some(Duration::from_millis(1));
    // A delay with an attempt would hold the instance, whose orchestration no runtime has.
    let abandoned = provider.abandon_orchestration_item(&token, delay, true);
    assert!(abandoned.await.is_err(), "its message is gone");
    let other = backend.provider().await;
    enqueue(&other, start("i")).await;
    assert!(
        finds_turn(&other, LOCK, Duration::ZERO).await,
        "the lock is released"
    );
    backend.stop().await;
}

/// The instance is locked, but neither the answer to the lock nor a read tells so.
#[tokio::test]
async fn a_lock_whose_outcome_is_unknown_is_released() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    let emulator = backend.emulator().expect("checked before");
    let provider = hasty(emulator, &provider).await;
    let (item, token) = first_turn(&provider, LOCK).await;
    ack(&provider, &item, &token).await;
    enqueue(&provider, event("i")).await;
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Patch));
    emulator.inject(Fault::always(Effect::error(503, 0)).on(OperationKind::Read));
    let fetched = provider.fetch_orchestration_item(LOCK, LOCK / 3, None);
    assert!(fetched.await.is_err(), "the outcome is unknown");
    emulator.clear_faults();
    let fetched = provider.fetch_orchestration_item(LOCK, LOCK / 3, None);
    let (item, _, attempt) = fetched.await.expect("fetch").expect("the lock is released");
    assert_eq!((item.messages, attempt), (vec![event("i")], 1));
    backend.stop().await;
}

/// The activity has ended and its instance is prelocked, but neither the answer nor a read tells so.
#[tokio::test]
async fn the_end_of_an_activity_with_an_unknown_outcome_leaves_no_lock() {
    let (backend, provider) = or_skip!(Backend::failing(|_| {}).await);
    let emulator = backend.emulator().expect("checked before");
    let provider = hasty(emulator, &provider).await;
    begin(&provider, "shared", LOCK).await;
    enqueue(&provider, start("working")).await;
    next_turn(&provider, LOCK).await;
    ok!(provider.enqueue_for_worker(activity()));
    let (_, token, _) = next_activity(&provider, SHORT, None).await;
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    emulator.inject(Fault::always(Effect::error(503, 0)).on(OperationKind::Read));
    let ended = provider
        .ack_work_item(&token, Some(completed("done")))
        .await;
    assert!(ended.is_err(), "the outcome is unknown");
    emulator.clear_faults();
    let fetched = provider.fetch_orchestration_item(LOCK, LOCK / 3, None);
    let (item, ..) = fetched.await.expect("fetch").expect("the lock is released");
    assert_eq!((&*item.instance, item.messages.len()), ("shared", 1));
    backend.stop().await;
}
