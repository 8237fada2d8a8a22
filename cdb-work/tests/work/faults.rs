//! Lost answers, refused requests and stopped coordinators: no message is lost, duplicated or out
//! of order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::Query;
use cdb_work::{FlushStrategy, IntervalConfig, Partitions, Settlement, WorkCoordinator, WorkError};

use crate::test_env::{Tally, TestEnv, applied, applied_in_order, config, message, next};

#[tokio::test(start_paused = true)]
async fn a_lost_answer_stores_once_and_completes_once() {
    let env = TestEnv::start().await;
    let Some(emulator) = env.emulator() else {
        return;
    };
    let work = env.open(config()).await;
    let now = work.immediate();
    let lost = || Fault::once(Effect::DropAnswer).on(OperationKind::Batch);
    emulator.inject(lost());
    let stored = now.store(message("a", 1)).await.unwrap();
    assert_eq!(
        stored,
        Settlement::Stored { sequence: 1 },
        "stored by this coordinator, not a duplicate"
    );
    let claimed = next(&work).await;
    emulator.inject(lost());
    assert_eq!(
        now.report(applied(claimed)).await.unwrap(),
        Settlement::Done
    );
    assert_eq!(env.applied().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_arrived_is_sent_again() {
    let env = TestEnv::start().await;
    let Some(emulator) = env.emulator() else {
        return;
    };
    let work = env.open(config()).await;
    let after = Fault::once(Effect::StatusAfterEffect { status: 408 }).on(OperationKind::Batch);
    let before = Fault::once(Effect::error(408, 0));
    for fault in [after, before.on(OperationKind::Batch)] {
        emulator.inject(fault);
    }
    let now = work.immediate();
    for n in 1..=2 {
        let stored = now.store(message("a", n)).await.unwrap();
        assert_eq!(stored, Settlement::Stored { sequence: n as u64 });
    }
}

const STREAMS: usize = 20;
const MESSAGES: u64 = 10;

/// Works until `stop` is set. Returns how often the store refused to apply a message out of order
/// or twice.
async fn work_on(work: WorkCoordinator, stop: Arc<AtomicBool>) -> usize {
    let interval = work.interval(IntervalConfig::every(Duration::from_millis(15)));
    let mut receipts = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for claimed in work.claim(50, Duration::from_millis(50)).await {
            receipts.push(interval.report(applied_in_order(claimed)).await);
        }
    }
    drop(interval);
    let mut refused = 0;
    for receipt in receipts {
        let settled = receipt.settled().await;
        refused += usize::from(matches!(settled, Err(WorkError::EffectRefused { .. })));
    }
    refused
}

#[tokio::test(start_paused = true)]
async fn the_order_holds_with_faults_and_stopped_coordinators() {
    let env = TestEnv::start().await;
    let Some(emulator) = env.emulator() else {
        return;
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut settings = config();
    settings.lease = Duration::from_millis(700);
    create_tallies(&env, settings.partitions).await;
    let mut workers = Vec::new();
    for index in 0..2 {
        let work = env.open_share(settings.clone(), index, 2).await;
        workers.push(tokio::spawn(work_on(work, stop.clone())));
    }
    for fault in Fault::in_five_ways(0.05) {
        emulator.inject(fault);
    }
    let sender = env.open_share(settings.clone(), 255, 256).await;
    for n in 1..=MESSAGES {
        let scope = sender.scoped();
        for stream in streams() {
            scope
                .store(message(&stream, usize::try_from(n).unwrap()))
                .await;
        }
        scope.commit().await.unwrap();
        if n == MESSAGES / 2 {
            // Stopped at any point; its successor waits for its lease.
            workers.remove(0).abort();
            let work = env.open_share(settings.clone(), 0, 2).await;
            workers.push(tokio::spawn(work_on(work, stop.clone())));
        }
    }
    let mut applied = BTreeMap::new();
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        applied = count_by_stream(&env).await;
        if applied.values().sum::<u64>() >= STREAMS as u64 * MESSAGES {
            break;
        }
    }
    emulator.clear_faults();
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        assert_eq!(worker.await.unwrap(), 0, "applied out of order or twice");
    }
    let all: BTreeMap<String, u64> = streams().map(|stream| (stream, MESSAGES)).collect();
    assert_eq!(applied, all);
    let tallies = Query::<Tally>::across_partitions();
    for tally in env.shop.query(tallies).all().await.unwrap() {
        let tally = tally.document;
        assert_eq!(
            (tally.last, tally.count),
            (MESSAGES, MESSAGES),
            "{}",
            tally.stream
        );
    }
}

fn streams() -> impl Iterator<Item = String> {
    (0..STREAMS).map(|n| format!("s{n}"))
}

async fn count_by_stream(env: &TestEnv) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for one in env.applied().await {
        *counts.entry(one.stream).or_default() += 1;
    }
    counts
}

async fn create_tallies(env: &TestEnv, partitions: Partitions) {
    for stream in streams() {
        let partition = partitions.name(partitions.of_stream(&stream));
        let tally = Tally {
            partition,
            stream,
            last: 0,
            count: 0,
        };
        env.shop.create(&tally).await.unwrap();
    }
}
