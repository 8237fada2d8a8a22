//! When a completion is handed over, and for how long it waits.

use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use duroxide::providers::Provider;
use tokio::time::sleep;

use super::stage::{LOCK, MOMENT, SOON, Stage, TOO_LATE};
use crate::harness::{finds_turn, next_turn};
use crate::several::{ack, enqueue, event, start, turn_with};
use crate::work_items::activity_of;

#[tokio::test(start_paused = true)]
async fn a_completion_that_a_turn_takes_is_never_stored() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let activity = stage.activity().await;
    let turn = stage.dispatcher().await;
    stage.emulator().reset_requests();
    let acknowledged = stage.acknowledge(activity);
    let turn = turn.await.expect("a turn");
    assert_eq!((turn.0.messages.len(), turn.2), (1, 1));
    assert!(stage.messages().await.is_empty());
    assert!(!acknowledged.is_finished(), "it answers after the commit");
    stage.commit(&turn, None).await.expect("it is committed");
    let answer = acknowledged.await.expect("no panic");
    answer.expect("the activity has ended");
    assert_eq!(stage.requests(OperationKind::Batch), 1);
    assert_eq!(stage.activities().await, 0);
    assert!(stage.messages().await.is_empty());
    assert_eq!(stage.completions().await, 1);
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_completion_does_not_wait_long_for_a_slow_turn() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let (acknowledged, turn) = stage.taken().await;
    sleep(TOO_LATE).await;
    let answer = acknowledged.await.expect("no panic");
    answer.expect("it is stored");
    assert_eq!(
        (stage.messages().await.len(), stage.activities().await),
        (1, 0)
    );
    // The turn goes on, and consumes the message.
    sleep(Duration::from_secs(2)).await;
    stage.commit(&turn, None).await.expect("it is committed");
    assert!(stage.messages().await.is_empty());
    assert_eq!(stage.completions().await, 1);
    assert!(
        !finds_turn(&stage.provider, LOCK, LOCK / 10).await,
        "it arrives once"
    );
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_late_turn_completions_of_its_orchestration_are_stored_at_once_for_a_while() {
    let stage = or_skip!(Stage::with_activities(3).await);
    let mut times = Vec::new();
    for pause in [Duration::ZERO, Duration::ZERO, Duration::from_secs(2)] {
        sleep(pause).await;
        let activity = stage.activity().await;
        let turn = stage.dispatcher().await;
        let begun = tokio::time::Instant::now();
        let acknowledged = stage.acknowledge(activity);
        let turn = turn.await.expect("a turn");
        acknowledged.await.expect("no panic").expect("it is stored");
        times.push(begun.elapsed());
        stage.commit(&turn, None).await.expect("it is committed");
    }
    assert!(
        times[0] > times[1] * 2 && times[2] > times[1] * 2,
        "{times:?}"
    );
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn it_is_stored_at_once_if_no_dispatcher_is_there() {
    let stage = or_skip!(Stage::with_activities(2).await);
    let (first, second) = (stage.activity().await, stage.activity().await);
    let begun = tokio::time::Instant::now();
    for activity in [first, second] {
        let answer = stage.acknowledge(activity).await.expect("no panic");
        answer.expect("it is stored");
    }
    assert!(begun.elapsed() < TOO_LATE / 2);
    assert_eq!(stage.messages().await.len(), 2);
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_attempt_is_stored_so_that_a_turn_that_kills_its_process_is_counted() {
    let stage = or_skip!(Stage::patient(1).await);
    let (_, token) = stage.activity().await;
    ok!(stage.provider.abandon_work_item(&token, None, false));
    let activity = stage.activity().await;
    let turn = stage.dispatcher().await;
    let begun = tokio::time::Instant::now();
    let answer = stage.acknowledge(activity).await.expect("no panic");
    answer.expect("it is stored");
    assert!(begun.elapsed() < SOON, "it does not wait");
    assert_eq!(stage.messages().await.len(), 1);
    let turn = turn.await.expect("a turn");
    stage.commit(&turn, None).await.expect("it is committed");
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn completions_that_come_during_a_turn_are_taken_by_the_next_one_together() {
    let stage = or_skip!(Stage::with_activities(3).await);
    let activities = [
        stage.activity().await,
        stage.activity().await,
        stage.activity().await,
    ];
    let running = turn_with(&stage.provider, event("i"), LOCK).await;
    let next = stage.dispatcher().await;
    stage.emulator().reset_requests();
    let acknowledged = activities.map(|activity| stage.acknowledge(activity));
    sleep(MOMENT).await;
    stage.commit(&running, None).await.expect("it is committed");
    let turn = next.await.expect("a turn");
    assert_eq!(turn.0.messages.len(), 3);
    stage.commit(&turn, None).await.expect("it is committed");
    for answer in acknowledged {
        answer.await.expect("no panic").expect("it has ended");
    }
    assert_eq!(stage.requests(OperationKind::Batch), 2);
    stage.ends_with(0, 3).await;
}

#[tokio::test(start_paused = true)]
async fn the_commit_locks_the_next_activity_for_the_worker() {
    let stage = or_skip!(Stage::with_activities(4).await);
    // The commit has prelocked one for each worker that it knew: none.
    let (acknowledged, turn) = stage.taken().await;
    stage.commit(&turn, None).await.expect("it is committed");
    acknowledged.await.expect("no panic").expect("it has ended");
    stage.emulator().reset_requests();
    let _next = stage.activity().await;
    assert_eq!(stage.requests(OperationKind::Patch), 0, "it has the lock");
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_a_turn_takes_is_never_stored() {
    let stage = or_skip!(Stage::with_activities(0).await);
    let turn = stage.dispatcher().await;
    stage.emulator().reset_requests();
    let started = stage.start("new");
    let (item, token, attempt) = turn.await.expect("a turn");
    assert_eq!((item.instance.as_str(), attempt), ("new", 1));
    assert!(!started.is_finished(), "it answers after the commit");
    ack(&stage.provider, &item, &token).await;
    started.await.expect("no panic").expect("it has started");
    assert_eq!(stage.requests(OperationKind::Batch), 1);
    assert_eq!(stage.requests(OperationKind::Create), 0);
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_is_stored_if_its_turn_is_slow() {
    let stage = or_skip!(Stage::with_activities(0).await);
    let (started, (item, token, _)) = stage.taken_start().await;
    // Longer than a reservation, so the lock is stored meanwhile.
    sleep(Duration::from_secs(2)).await;
    assert!(started.is_finished());
    assert!(
        !finds_turn(&stage.other, LOCK, LOCK / 10).await,
        "it has the lock"
    );
    ack(&stage.provider, &item, &token).await;
    started.await.expect("no panic").expect("it has started");
    assert!(
        !finds_turn(&stage.other, LOCK, LOCK / 10).await,
        "it starts once"
    );
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_start_of_an_instance_that_exists_changes_nothing() {
    let stage = or_skip!(Stage::with_activities(0).await);
    let (item, token, _) = turn_with(&stage.other, start("there"), LOCK).await;
    ack(&stage.other, &item, &token).await;
    let turn = stage.dispatcher().await;
    let started = stage.start("there");
    let (item, token, _) = turn.await.expect("a turn");
    assert!(item.history.is_empty(), "it is not known here");
    let metadata = crate::work_items::metadata_of("Wait");
    let twice =
        stage
            .provider
            .ack_orchestration_item(&token, 1, vec![], vec![], vec![], metadata, vec![]);
    assert!(twice.await.is_err(), "it exists");
    started.await.expect("no panic").expect("it is stored");
    // As any second start.
    let (item, token, _) = next_turn(&stage.provider, LOCK).await;
    assert_eq!((item.history.len(), item.messages.len()), (1, 1));
    ack(&stage.provider, &item, &token).await;
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_commit_of_an_unstored_start_stays_its_own() {
    let stage = or_skip!(Stage::with_activities(0).await);
    let (started, (item, token, _)) = stage.taken_start().await;
    let throttled = Effect::throttled(MOMENT * 5);
    let throttled = Fault::always(throttled).on(OperationKind::Batch);
    stage.emulator().inject(throttled);
    let recovers = async {
        // Longer than the lock of the turn.
        sleep(LOCK * 2).await;
        stage.emulator().clear_faults();
    };
    tokio::join!(ack(&stage.provider, &item, &token), recovers);
    let answer = started.await.expect("no panic");
    let unknown = answer.expect_err("the caller does not wait for as long");
    assert!(unknown.is_retryable());
    assert!(
        !finds_turn(&stage.other, LOCK, LOCK / 10).await,
        "it starts once"
    );
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_first_turn_delays_its_start() {
    let stage = or_skip!(Stage::with_activities(0).await);
    let (started, (_, token, _)) = stage.taken_start().await;
    let delay = Duration::from_millis(500);
    stage.abandon(&token, Some(delay), true).await;
    started.await.expect("no panic").expect("it is stored");
    assert!(
        !finds_turn(&stage.provider, LOCK, delay.saturating_sub(TOO_LATE)).await,
        "it is delayed"
    );
    let (item, token, attempt) = next_turn(&stage.provider, LOCK).await;
    assert_eq!((item.messages.len(), attempt), (1, 1));
    ack(&stage.provider, &item, &token).await;
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_for_a_busy_dispatcher_only_if_no_activity_waits_for_it() {
    for (activities, is_stored) in [(3, true), (1, false)] {
        let stage = or_skip!(Stage::with_activities(activities).await);
        let activity = stage.activity().await;
        enqueue(&stage.provider, start("busy")).await;
        let (item, token, _) = next_turn(&stage.provider, LOCK).await;
        let begun = tokio::time::Instant::now();
        let acknowledged = stage.acknowledge(activity);
        ack(&stage.provider, &item, &token).await;
        let turn = next_turn(&stage.provider, LOCK).await;
        assert_eq!(
            stage.messages().await.len(),
            usize::from(is_stored),
            "{activities}"
        );
        stage.commit(&turn, None).await.expect("it is committed");
        acknowledged.await.expect("no panic").expect("it has ended");
        assert!(begun.elapsed() < TOO_LATE);
        stage.backend.stop().await;
    }
}

/// Its turn may take longer than those before it.
#[tokio::test(start_paused = true)]
async fn a_worker_waits_for_no_turn_while_an_activity_of_another_instance_waits_for_it() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let activity = stage.activity().await;
    let (_, token, _) = turn_with(&stage.provider, start("other"), LOCK).await;
    let work = vec![activity_of("other", 2, None)];
    ok!(stage.begin(&token, "other", "", work));
    let _slow = stage.dispatcher().await;
    let begun = tokio::time::Instant::now();
    let answer = stage.acknowledge(activity).await.expect("no panic");
    answer.expect("it is stored");
    let took = begun.elapsed();
    assert!(took <= MOMENT * 2, "{took:?}");
    stage.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_completion_does_not_pass_an_instance_that_waits_for_a_dispatcher() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let activity = stage.activity().await;
    let _busy = turn_with(&stage.provider, start("busy"), LOCK).await;
    enqueue(&stage.provider, start("waits")).await;
    let acknowledged = stage.acknowledge(activity);
    // It is being stored.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let (item, ..) = next_turn(&stage.provider, LOCK).await;
    assert_eq!(item.instance, "waits");
    acknowledged.await.expect("no panic").expect("it is stored");
    stage.backend.stop().await;
}
