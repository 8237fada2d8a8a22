//! Writes whose outcome is unknown, and writes whose caller was cancelled: each takes effect once,
//! and nothing waits for them for ever.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_coordination::membership::SlotSet;
use cdb_coordination::retry::RetryPolicy;
use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use cdb_model::{Batch, Document as _, Patch};
use cdb_work::{
    ClaimedWork, FlushStrategy, IntervalConfig, NewWork, Settlement, WorkConfig, WorkCoordinator,
    WorkReport, WorkStatus,
};

use crate::attempts::Slots;
use crate::test_env::{
    PARTITION, Shop, Tally, TallyKey, TestEnv, applied, config, message, next, one_partition,
};

/// Counts how often a report is written.
fn count(claimed: &ClaimedWork) -> Batch<Shop> {
    let mut effects = claimed.effects();
    let count = Patch::<Tally>::new().incr(Tally::COUNT, 1);
    let key = TallyKey::new(PARTITION, &*claimed.message().stream);
    effects.add(count.at(&key)).unwrap();
    effects
}

/// The report of the first stage.
fn published(claimed: &ClaimedWork) -> WorkReport {
    let report = claimed.reached(WorkStatus::PUBLISHED);
    report.with_effects(&count(claimed)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_works_with_the_longest_durations() {
    let env = TestEnv::start().await;
    let mut longest = config();
    for duration in [
        &mut longest.lease,
        &mut longest.claim_timeout,
        &mut longest.drain,
        &mut longest.longest_pause,
        &mut longest.sweep,
        &mut longest.remember,
        &mut longest.forget,
        &mut longest.retry.first_delay,
        &mut longest.retry.longest_delay,
    ] {
        *duration = Duration::MAX;
    }
    let work = env.open(longest).await;
    let now = work.immediate();
    for stream in ["a", "b", "c"] {
        now.store(message(stream, 1)).await.unwrap();
    }
    let failed = now.report(next(&work).await.failed("no")).await.unwrap();
    assert!(matches!(failed, Settlement::Retrying { .. }), "{failed:?}");
    let done = now.report(next(&work).await.done()).await.unwrap();
    assert_eq!(done, Settlement::Done);
    work.shutdown().await.unwrap();
    // Another process can read what it has written.
    let work = env.open(config()).await;
    let done = work.immediate().report(next(&work).await.done()).await;
    assert_eq!(done.unwrap(), Settlement::Done);
    work.shutdown().await.unwrap();
}

async fn create_tally(env: &TestEnv) {
    let tally = Tally {
        partition: PARTITION.to_owned(),
        stream: "a".to_owned(),
        last: 0,
        count: 0,
    };
    env.shop.run(tally.create()).await.unwrap();
}

async fn tally(env: &TestEnv) -> u64 {
    let read = env.shop.read(&TallyKey::new(PARTITION, "a")).await;
    read.unwrap().unwrap().document.count
}

/// The next batch takes place, its answer is lost, and no document can be read.
fn hide_the_outcome(emulator: &Emulator) {
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    emulator.inject(Fault::always(Effect::error(503, 0)).on(OperationKind::Read));
}

const SLOW: Duration = Duration::from_secs(1);

fn slow() -> Effect {
    Effect::Delay(SLOW.into())
}

/// Cancels a call during its slow request.
async fn cancel_at_once<T>(env: &TestEnv, call: impl Future<Output = T>) {
    let time = env.time().unwrap();
    tokio::select! {
        _late = call => {}
        () = time.in_real_time(async { tokio::time::sleep(SLOW / 5).await }) => {}
    }
}

/// A message with two stages is stored in stream `a`, and claimed.
async fn claim_two_stages(env: &TestEnv, work: &WorkCoordinator) -> ClaimedWork {
    create_tally(env).await;
    let needs = WorkStatus::PUBLISHED | WorkStatus::PROJECTION_DONE;
    let two_stages = NewWork::inbox("a", "1").needing(needs);
    work.immediate().store(two_stages).await.unwrap();
    next(work).await
}

#[tokio::test(start_paused = true)]
async fn a_stage_with_an_unknown_outcome_is_written_once() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let work = env.open(one_partition()).await;
    let claimed = claim_two_stages(&env, &work).await;
    let later = work.interval(IntervalConfig::every(Duration::from_secs(3600)));
    let report = published(&claimed);
    let receipt = later.report(report).await;
    hide_the_outcome(emulator);
    later.flush().await.unwrap_err();
    emulator.clear_faults();
    later.flush().await.unwrap();
    assert_eq!(receipt.settled().await.unwrap(), Settlement::Progressed);
    assert_eq!(tally(&env).await, 1);
    work.immediate().report(claimed.done()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failure_with_an_unknown_outcome_is_written_once() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let work = env.open(one_partition()).await;
    let claimed = claim_two_stages(&env, &work).await;
    let effects = count(&claimed);
    let failed = claimed.failed("not yet").with_effects(&effects).unwrap();
    let later = work.interval(IntervalConfig::every(Duration::from_secs(3600)));
    let receipt = later.report(failed).await;
    hide_the_outcome(emulator);
    later.flush().await.unwrap_err();
    emulator.clear_faults();
    later.flush().await.unwrap();
    let settled = receipt.settled().await;
    assert!(
        matches!(settled, Ok(Settlement::Retrying { .. })),
        "{settled:?}"
    );
    assert_eq!(tally(&env).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gets_an_unknown_outcome_keeps_its_claim_until_it_is_known() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let work = env.open(one_partition()).await;
    let claimed = claim_two_stages(&env, &work).await;
    hide_the_outcome(emulator);
    let report = published(&claimed);
    work.immediate().report(report).await.unwrap_err();
    emulator.clear_faults();
    // The coordinator finds out by itself.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let rest = work.immediate().report(claimed.done()).await;
    assert_eq!(rest.unwrap(), Settlement::Done);
    assert_eq!(tally(&env).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_with_an_unknown_outcome_is_stored_once_and_not_a_duplicate() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let work = env.open(one_partition()).await;
    let later = work.interval(IntervalConfig::every(Duration::from_secs(3600)));
    let receipt = later.store(message("a", 1)).await;
    hide_the_outcome(emulator);
    later.flush().await.unwrap_err();
    emulator.clear_faults();
    later.flush().await.unwrap();
    let settled = receipt.settled().await.unwrap();
    assert_eq!(settled, Settlement::Stored { sequence: 1 });
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_flush_writes_its_effects_once() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let work = env.open(one_partition()).await;
    let claimed = claim_two_stages(&env, &work).await;
    let report = published(&claimed);
    // The batch takes place, and its flush is cancelled while it looks for the outcome.
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    emulator.inject(Fault::once(slow()).on(OperationKind::Read));
    let now = work.immediate();
    cancel_at_once(&env, now.report(report)).await;
    emulator.clear_faults();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(now.report(claimed.done()).await.unwrap(), Settlement::Done);
    assert_eq!(tally(&env).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_entries_of_a_cancelled_caller_are_written_and_hold_up_no_hand_over() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let mut settings = one_partition();
    settings.claim_timeout = Duration::from_secs(3600);
    let slots = Arc::new(Slots(Mutex::new(SlotSet::ALL)));
    let first = env.open_with(settings.clone(), slots.clone()).await;
    let now = first.immediate();
    now.store(message("a", 1)).await.unwrap();
    let report = applied(next(&first).await);
    // The batch arrives late, after the coordinator has sent it again.
    emulator.inject(Fault::once(slow()).on(OperationKind::Batch));
    cancel_at_once(&env, now.report(report)).await;
    let second = env.open_share(settings, 0, 1).await;
    *slots.0.lock().unwrap() = SlotSet::NONE;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let late = async { tokio::time::sleep(SLOW).await };
    env.time().unwrap().in_real_time(late).await;
    assert_eq!(env.applied().await.len(), 1);
    assert_eq!(second.partitions().len(), 1, "the hand-over has ended");
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_being_taken_at_the_shutdown_is_released() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let mut settings = config();
    settings.lease = Duration::from_secs(3600);
    let slots = Arc::new(Slots(Mutex::new(SlotSet::NONE)));
    let first = env.open_with(settings.clone(), slots.clone()).await;
    emulator.inject(Fault::always(slow()).on(OperationKind::Create));
    *slots.0.lock().unwrap() = SlotSet::ALL;
    // The upkeep has found free partitions after the next round trip.
    tokio::time::sleep(settings.upkeep + Duration::from_millis(1)).await;
    let begun = async { tokio::time::sleep(SLOW / 2).await };
    env.time().unwrap().in_real_time(begun).await;
    first.shutdown().await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    emulator.clear_faults();
    let second = env.open(settings).await;
    assert_eq!(second.partitions().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn durations_that_contradict_each_other_are_refused() {
    let env = TestEnv::start().await;
    let refusal = async |settings: WorkConfig| {
        let slots = Arc::new(Slots(Mutex::new(SlotSet::ALL)));
        let refused = WorkCoordinator::open(env.container(), slots, settings).await;
        refused.unwrap_err().to_string()
    };
    let secs = Duration::from_secs;
    let mut rare = WorkConfig::default();
    rare.upkeep = secs(6);
    let mut slow = WorkConfig::default();
    slow.longest_pause = secs(20);
    let mut shrinking = WorkConfig::default();
    shrinking.retry = RetryPolicy::default().with_delays(secs(60), secs(1));
    for (settings, text) in [
        (rare, "`upkeep` is 6s, longer than `lease / 3`, which is 5s"),
        (
            slow,
            "`longest_pause` is 20s, longer than `sweep`, which is 10s",
        ),
        (
            shrinking,
            "`retry.first_delay` is 60s, longer than `retry.longest_delay`, which is 1s",
        ),
    ] {
        let refused = refusal(settings).await;
        assert!(refused.starts_with(text), "{refused}");
    }
}
