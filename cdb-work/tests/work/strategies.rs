//! Flush strategies, and entries that were not written.

use std::time::Duration;

use cdb_work::{FlushStrategy, IntervalConfig, Receipt, Settlement, WorkCoordinator, WorkError};

use crate::test_env::{TestEnv, applied, config, message, next};

const STREAMS: usize = 8;

/// The same program with any strategy.
async fn stores_and_ends(work: &WorkCoordinator, round: usize, strategy: &dyn FlushStrategy) {
    let mut receipts: Vec<Receipt> = Vec::new();
    for stream in 0..STREAMS {
        for n in 1..=3 {
            let message = message(&stream.to_string(), round * 3 + n);
            receipts.push(strategy.store(message).await);
        }
    }
    strategy.flush().await.unwrap();
    let mut ended = 0;
    while ended < STREAMS * 3 {
        for claimed in work.claim(100, Duration::from_secs(5)).await {
            receipts.push(strategy.report(applied(claimed)).await);
            ended += 1;
        }
    }
    strategy.flush().await.unwrap();
    for receipt in receipts {
        receipt.settled().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn strategies_are_interchangeable() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let work = env.open(config()).await;
    let interval = work.interval(IntervalConfig::every(Duration::from_secs(60)));
    let strategies: [&dyn FlushStrategy; 3] = [&work.immediate(), &work.scoped(), &interval];
    let mut batches = Vec::new();
    for (number, strategy) in strategies.into_iter().enumerate() {
        let before = env.applied().await.len();
        emulator.reset_requests();
        stores_and_ends(&work, number, strategy).await;
        let log = emulator.requests();
        batches.push(log.counts[&cdb_emulator::OperationKind::Batch]);
        assert_eq!(env.applied().await.len() - before, STREAMS * 3);
    }
    assert_eq!(batches[0], 48, "one per message and report");
    assert!(batches[1] <= 12 && batches[2] <= 12, "{batches:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_scope_writes_in_the_background() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let scope = work.scoped();
    let receipt = scope.store(message("a", 1)).await;
    drop(scope);
    let settled = receipt.settled().await.unwrap();
    assert_eq!(settled, Settlement::Stored { sequence: 1 });
}

#[tokio::test(start_paused = true)]
async fn an_interval_writes_by_time_by_size_and_when_it_is_dropped() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let by_time = work.interval(IntervalConfig::every(Duration::from_millis(20)));
    ok!(by_time.store(message("a", 1)).await.settled());
    let never = Duration::from_secs(3600);
    let by_size = work.interval(IntervalConfig::every(never).with_most_entries(2));
    let first = by_size.store(message("a", 2)).await;
    let second = by_size.store(message("b", 1)).await;
    first.settled().await.unwrap();
    second.settled().await.unwrap();
    let last = by_size.store(message("c", 1)).await;
    drop(by_size);
    last.settled().await.unwrap();
    let closed = work.interval(IntervalConfig::every(never));
    let receipt = closed.store(message("d", 1)).await;
    closed.close().await.unwrap();
    receipt.settled().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_cannot_be_written_is_reported_as_lost_and_its_message_claimed_again() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let work = env.open(config()).await;
    work.immediate().store(message("a", 1)).await.unwrap();
    let claimed = next(&work).await;
    let mut short = IntervalConfig::every(Duration::from_secs(3600));
    short.last_flush = Duration::from_millis(100);
    let interval = work.interval(short);
    let refused = cdb_emulator::Effect::error(403, 1014);
    emulator.inject(cdb_emulator::Fault::always(refused));
    let stored = interval.store(message("a", 2)).await;
    let ended = interval.report(claimed.done()).await;
    assert!(matches!(interval.close().await, Err(WorkError::Unflushed)));
    for lost in [stored, ended] {
        let reason = lost.settled().await.unwrap_err();
        assert!(matches!(reason, WorkError::Unflushed), "{reason}");
    }
    emulator.clear_faults();
    assert_eq!(next(&work).await.message().message_id, "1");
}

#[test]
fn a_scope_that_outlives_its_runtime_reports_lost_entries() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (scope, receipt, work, env) = runtime.block_on(async {
        let env = TestEnv::start().await;
        let work = env.open(config()).await;
        let scope = work.scoped();
        let receipt = scope.store(message("a", 1)).await;
        (scope, receipt, work, env)
    });
    drop(scope);
    let reason = runtime.block_on(receipt.settled()).unwrap_err();
    assert!(matches!(reason, WorkError::Unflushed), "{reason}");
    runtime.block_on(async { drop((work, env)) });
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_leaves_its_entry_only_when_its_outcome_is_unknown() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let work = env.open(config()).await;
    for (stream, effect, again) in [
        // The first call may have stored the message, and has.
        (
            "a",
            cdb_emulator::Effect::DropRequest,
            Settlement::Duplicate,
        ),
        (
            "b",
            cdb_emulator::Effect::error(403, 1014),
            Settlement::Stored { sequence: 1 },
        ),
    ] {
        emulator.inject(cdb_emulator::Fault::always(effect));
        let store = || async { work.immediate().store(message(stream, 1)).await };
        store().await.unwrap_err();
        emulator.clear_faults();
        assert_eq!(store().await.unwrap(), again, "{stream}");
    }
}
