//! Slow stores, large turns and throttled commits hold no caller, no dispatcher and no turn.

use super::*;

/// How long a dispatcher is held while a message of its turn is being stored: `HAND_OVER_GATE`.
const HELD: Duration = ms(1_100);

/// When this has been acknowledged, since `begun`.
fn timed(
    acknowledged: JoinHandle<Result<(), ProviderError>>,
    begun: Instant,
) -> JoinHandle<Duration> {
    tokio::spawn(async move {
        acknowledged.await.expect("no panic").expect("it has ended");
        begun.elapsed()
    })
}

/// Whether another process finds an activity to run within this time.
fn runs_elsewhere(stage: &Stage, time: Duration) -> JoinHandle<bool> {
    let other = stage.other.clone();
    tokio::spawn(async move {
        let (until, mut twice) = (Instant::now() + time, false);
        while Instant::now() < until {
            let fetched = other.fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any);
            twice |= fetched.await.is_ok_and(|found| found.is_some());
            sleep(ms(500)).await;
        }
        twice
    })
}

/// The acknowledgement does not wait for the chunks of a large turn.
async fn ack_of_a_large_turn(policy: HandOver) -> Option<(Duration, Duration)> {
    let (stage, network) = networked(policy, 2).await?;
    let activity = stage.activity().await;
    network.slow_down(ANY, ms(50));
    let turn = stage.dispatcher().await;
    let begun = Instant::now();
    let acknowledged = stage.acknowledge(activity);
    let (item, token, _) = turn.await.expect("a turn");
    let ended = timed(acknowledged, begun);
    let large = noise(20_000_000);
    // The other activity is there for the next worker.
    let provider = stage.provider.clone();
    let next = tokio::spawn(async move {
        sleep(ms(5)).await;
        let begun = Instant::now();
        let fetched = provider.fetch_work_item(LOCK, LOCK, None, &TagFilter::Any);
        fetched.await.expect("fetch").expect("an activity");
        begun.elapsed()
    });
    ok!(stage.commit_with(&item, &token, &large, None));
    let times = (
        ended.await.expect("no panic"),
        next.await.expect("no panic"),
    );
    stage.backend.stop().await;
    Some(times)
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_does_not_wait_for_a_large_commit() {
    let (never, handed) = or_skip!(compared(ack_of_a_large_turn).await);
    assert!(
        handed.0 <= never.0 + ms(60) && handed.1 <= never.1 + ms(60),
        "{never:?} never, {handed:?} handed over"
    );
}

/// The same for a start.
async fn start_of_a_large_turn(policy: HandOver) -> Option<Duration> {
    let (stage, network) = networked(policy, 0).await?;
    network.slow_down(ANY, ms(50));
    let turn = stage.dispatcher().await;
    let begun = Instant::now();
    let start = stage.start("new");
    let (item, token, _) = turn.await.expect("a turn");
    let ended = timed(start, begun);
    drop(item);
    let large = noise(20_000_000);
    let committed = stage.begin(&token, "new", &large, vec![]);
    committed.await.expect("it is committed");
    let time = ended.await.expect("no panic");
    stage.backend.stop().await;
    Some(time)
}

#[tokio::test(start_paused = true)]
async fn a_start_does_not_wait_for_a_large_commit() {
    let (never, handed) = or_skip!(compared(start_of_a_large_turn).await);
    assert!(handed <= never + ms(60), "{never:?}, {handed:?}");
}

/// An abandoned turn does not hold its dispatcher while the completion is being stored.
async fn abandon_while_stored(policy: HandOver) -> Option<Duration> {
    let (stage, network) = networked(policy, 1).await?;
    let activity = stage.activity().await;
    enqueue(&stage.other, event(INSTANCE)).await;
    let turn = stage.dispatcher().await;
    network.answer_late(BATCH, SECOND * 8);
    let acknowledged = stage.acknowledge(activity);
    let (_, token, _) = turn.await.expect("a turn");
    sleep(ms(40)).await;
    let begun = Instant::now();
    let abandoned = stage
        .provider
        .abandon_orchestration_item(&token, Some(ms(10)), true);
    let _late = abandoned.await;
    let time = begun.elapsed();
    let _ended = acknowledged.await.expect("no panic");
    stage.backend.stop().await;
    Some(time)
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_turn_holds_its_dispatcher() {
    let (never, handed) = or_skip!(compared(abandon_while_stored).await);
    assert!(handed <= never + ms(60), "{never:?}, {handed:?}");
}

/// Two completions; the store of the first is slow. Returns the time of the second acknowledgement, that
/// of the commit, and whether the turn is committed.
async fn beside_a_slow_store(policy: HandOver) -> Option<(Duration, Duration, bool)> {
    let (stage, network) = networked(policy, 2).await?;
    let (first, second) = (stage.activity().await, stage.activity().await);
    let turn = stage.dispatcher().await;
    let acknowledged = stage.acknowledge(first);
    // The first turn takes the event, so both completions wait for the next one.
    enqueue(&stage.provider, event(INSTANCE)).await;
    let (item, token, _) = turn.await.expect("a turn");
    let next = stage.dispatcher().await;
    sleep(ms(12)).await;
    // Stored late, and its answer is lost for a while.
    network.answer_late(BATCH, SECOND * 8);
    sleep(ms(12)).await;
    let begun = Instant::now();
    let beside = stage.acknowledge(second);
    let ended = timed(beside, begun);
    sleep(MOMENT).await;
    let committing = Instant::now();
    let committed = stage.commit_with(&item, &token, "done", None).await;
    let took = committing.elapsed();
    if let Ok(turn) = timeout(SECOND * 20, next).await {
        let _again = stage.commit(&turn.expect("a turn"), None).await;
    }
    let time = ended.await.expect("no panic");
    let _ended = acknowledged.await.expect("no panic");
    stage.backend.stop().await;
    Some((time, took, committed.is_ok()))
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_loses_no_turn() {
    let (never, handed) = or_skip!(compared(beside_a_slow_store).await);
    assert!(handed.2 || !never.2, "the turn is lost");
    assert!(handed.1 <= never.1 + ms(60), "the dispatcher is held");
    assert!(handed.0 <= never.0 + ms(60), "the worker is held");
}

/// A completion whose turn comes late, and an event in the same turn. The store of the completion takes long.
async fn event_beside_a_slow_store(policy: HandOver) -> Option<(Duration, bool)> {
    let (stage, network) = networked(policy, 1).await?;
    let activity = stage.activity().await;
    let turn = stage.dispatcher().await;
    network.answer_late(BATCH, SECOND * 8);
    let acknowledged = stage.acknowledge(activity);
    sleep(MOMENT).await;
    if !turn.is_finished() {
        enqueue(&stage.provider, event(INSTANCE)).await;
    }
    let turn = turn.await.expect("a turn");
    sleep(ms(40)).await;
    let begun = Instant::now();
    let committed = stage.commit(&turn, None).await;
    let time = begun.elapsed();
    let _ended = acknowledged.await.expect("no panic");
    let mut is_kept = committed.is_ok();
    for _ in 0..100 {
        // Without its dispatcher.
        is_kept |= stage.completions().await == 1;
        sleep(SECOND / 10).await;
    }
    stage.backend.stop().await;
    Some((time, is_kept))
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_not_lost_because_its_completion_is_stored_slowly() {
    let (never, handed) = or_skip!(compared(event_beside_a_slow_store).await);
    assert!(handed.1 || !never.1, "the turn is lost");
    assert!(handed.0 <= never.0 + HELD, "the dispatcher is held");
}

/// The result of a long activity, while reads are slow.
async fn ack_with_slow_reads(policy: HandOver) -> Option<Duration> {
    let (stage, network) = networked(policy, 1).await?;
    let activity = stage.activity().await;
    sleep(SECOND * 3).await;
    let turn = stage.dispatcher().await;
    network.slow_down(READ, SECOND * 2);
    let begun = Instant::now();
    let acknowledged = stage.acknowledge(activity);
    acknowledged.await.expect("no panic").expect("it has ended");
    let time = begun.elapsed();
    turn.abort();
    stage.backend.stop().await;
    Some(time)
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_does_not_wait_for_a_slow_read() {
    let (never, handed) = or_skip!(compared(ack_with_slow_reads).await);
    assert!(handed <= never + ms(60), "{never:?}, {handed:?}");
}

/// A large commit that takes longer than the lock of the activity, while the runtime renews it.
async fn runs_beside_a_large_commit(policy: HandOver) -> Option<(bool, bool, Duration)> {
    let (stage, network) = networked(policy, 1).await?;
    let lock = SECOND * 10;
    let activity = stage.activity_for(lock).await;
    let token = activity.1.clone();
    network.slow_down(ANY, SECOND * 3);
    let turn = stage.dispatcher().await;
    let begun = Instant::now();
    let acknowledged = stage.acknowledge(activity);
    let renews = {
        let provider = stage.provider.clone();
        tokio::spawn(async move {
            loop {
                sleep(SECOND * 3).await;
                let _renewed = provider.renew_work_item_lock(&token, lock).await;
            }
        })
    };
    let twice = runs_elsewhere(&stage, SECOND * 60);
    let (item, commit_token, _) = turn.await.expect("a turn");
    let large = noise(20_000_000);
    let committed = stage.commit_with(&item, &commit_token, &large, None).await;
    let _ended = acknowledged.await.expect("no panic");
    let took = begun.elapsed();
    renews.abort();
    let twice = twice.await.expect("no panic");
    stage.backend.stop().await;
    Some((twice, committed.is_ok(), took))
}

#[tokio::test(start_paused = true)]
async fn an_activity_does_not_run_again_because_its_turn_is_large() {
    let (never, handed) = or_skip!(compared(runs_beside_a_large_commit).await);
    assert!(!handed.0 || never.0, "it runs again");
    assert!(handed.1 || !never.1, "the turn is lost");
}

/// The commits of the process are throttled for longer than the lock.
async fn runs_beside_a_throttled_commit(policy: HandOver, lasts: u32) -> Option<(bool, bool)> {
    use cdb_emulator::{Effect, Fault, OperationKind};
    let (stage, network) = networked(policy, 1).await?;
    network.slow_down(ANY, ms(6));
    let activity = stage.activity().await;
    let token = activity.1.clone();
    let turn = stage.dispatcher().await;
    let acknowledged = stage.acknowledge(activity);
    let turn = turn.await.expect("a turn");
    let throttled = Effect::throttled(ms(500));
    let fault = Fault::always(throttled).on(OperationKind::Batch);
    stage.emulator().inject(fault);
    let worker = {
        let provider = stage.provider.clone();
        tokio::spawn(async move {
            let mut acknowledged = acknowledged;
            loop {
                tokio::select! {
                    answer = &mut acknowledged => {
                        let is_ended = answer.expect("no panic").is_ok();
                        if !is_ended {
                            // As the runtime does.
                            let _abandoned = provider.abandon_work_item(&token, None, false).await;
                        }
                        return is_ended;
                    }
                    () = sleep(SECOND * 10) => {
                        let _renewed = provider.renew_work_item_lock(&token, LOCK).await;
                    }
                }
            }
        })
    };
    let committed = {
        let provider = stage.provider.clone();
        tokio::spawn(async move {
            let _committed = commit_turn(&provider, &turn.0, &turn.1).await;
        })
    };
    let twice = runs_elsewhere(&stage, SECOND * (lasts + 30));
    sleep(SECOND * lasts).await;
    stage.emulator().clear_faults();
    let is_accepted = worker.await.expect("no panic");
    committed.await.expect("no panic");
    let twice = twice.await.expect("no panic");
    stage.backend.stop().await;
    Some((twice, is_accepted))
}

#[tokio::test(start_paused = true)]
async fn an_activity_does_not_run_again_because_its_turn_is_throttled() {
    let mut worse = Vec::new();
    for lasts in [5, 20] {
        let run = async |policy| runs_beside_a_throttled_commit(policy, lasts).await;
        let (never, handed) = or_skip!(compared(run).await);
        if never != handed {
            worse.push((lasts, never, handed));
        }
    }
    assert!(worse.is_empty(), "{worse:?}");
}

/// The creation of a start is answered late, after its turn has begun.
async fn turn_of_a_slowly_stored_start(policy: HandOver) -> Option<(Duration, bool, Duration)> {
    let (stage, network) = networked(policy, 0).await?;
    let turn = stage.dispatcher().await;
    network.answer_late(CREATE, SECOND * 8);
    let begun = Instant::now();
    let start = stage.start("new");
    let (item, token, _) = turn.await.expect("a turn");
    sleep(ms(40)).await;
    let committing = Instant::now();
    let committed = crate::several::try_ack(&stage.provider, &item, &token, vec![]).await;
    let held = committing.elapsed();
    start.await.expect("no panic").expect("it has started");
    let took = begun.elapsed();
    let mut is_kept = committed.is_ok();
    for _ in 0..100 {
        // Without its dispatcher.
        is_kept |= !stage.provider.read("new").await.expect("read").is_empty();
        sleep(SECOND / 10).await;
    }
    stage.backend.stop().await;
    Some((held, is_kept, took))
}

#[tokio::test(start_paused = true)]
async fn a_first_turn_is_not_lost_because_its_start_is_stored_slowly() {
    let (never, handed) = or_skip!(compared(turn_of_a_slowly_stored_start).await);
    assert!(handed.1 || !never.1, "the turn is lost");
    assert!(handed.0 <= never.0 + HELD, "the dispatcher is held");
}

/// A long activity, with a store that is far away.
#[tokio::test(start_paused = true)]
async fn an_acknowledgement_far_away() {
    let mut times = Vec::new();
    for policy in [HandOver::Never, HandOver::default()] {
        let (stage, network) = or_skip!(networked(policy, 1).await);
        let activity = stage.activity().await;
        sleep(SECOND * 3).await;
        network.slow_down(ANY, ms(100));
        let turn = stage.dispatcher().await;
        let begun = Instant::now();
        let acknowledged = stage.acknowledge(activity);
        let turn = turn.await.expect("a turn");
        let ended = timed(acknowledged, begun);
        stage.commit(&turn, None).await.expect("it is committed");
        times.push((ended.await.expect("no panic"), begun.elapsed()));
        stage.backend.stop().await;
    }
    println!("ack, turn: {times:?}");
    assert!(times[1].0 <= times[0].0 + ms(40), "{times:?}");
}
