//! The metrics of the coordinator.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_model::{Document, Patch, Query};
use cdb_work::{FlushStrategy, Settlement, Work, WorkError, WorkPartition, WorkStream};
use tokio::time::Instant;

use crate::recorded::Recorded;
use crate::test_env::{TestEnv, config, message, next};

type Metrics = BTreeMap<String, Vec<f64>>;

/// Waits until the metrics meet a condition.
async fn until(recorded: &Recorded, is_so: impl Fn(&Metrics) -> bool) -> Metrics {
    for _ in 0..500 {
        let metrics = recorded.under("cdb.work.");
        if is_so(&metrics) {
            return metrics;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:#?}", recorded.under("cdb.work."));
}

/// The count or the last value; 0 without a value.
fn count(metrics: &Metrics, name: &str) -> usize {
    let value = metrics.get(name).map_or(0.0, |values| values[0]);
    format!("{value:.0}").parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn partitions_and_their_leases_are_counted_as_they_change_hands() {
    let recorded = Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let env = TestEnv::start().await;
    let work = env.open_share(config(), 0, 2).await;
    let share = work.partitions().len();
    assert!(share > 0);
    // Its leases of 2 s are renewed in their last third.
    let metrics = until(&recorded, |metrics| {
        count(metrics, "partitions.held") == share && count(metrics, "leases renewed") >= share
    })
    .await;
    assert_eq!(count(&metrics, "partitions.wanted"), share);
    assert_eq!(count(&metrics, "leases claimed"), share);
    assert_eq!(metrics.get("leases lost"), None);
    let left = &metrics["lease.left"];
    assert_eq!(left.len(), count(&metrics, "leases renewed"));
    assert!(left.iter().all(|left| *left < 2.0 / 3.0), "{left:?}");

    // Another owner takes one partition: its next renewal is refused.
    let shop = env.shop.view::<Work>();
    let taken = <WorkPartition as Document>::Key::new(format!("work-{:03}", work.partitions()[0]));
    let by_other = Patch::<WorkPartition>::new().set(WorkPartition::FENCE, 1_000);
    shop.run(by_other.at(&taken)).await.unwrap();
    until(&recorded, |metrics| count(metrics, "leases lost") == 1).await;

    let held = work.partitions().len();
    work.shutdown().await.unwrap();
    let metrics = recorded.under("cdb.work.");
    assert_eq!(count(&metrics, "leases released"), held);
}

#[tokio::test(start_paused = true)]
async fn stored_claimed_and_completed_messages_are_counted() {
    let recorded = Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.retry.max_attempts = 2;
    let work = env.open(settings).await;
    let scope = work.scoped();
    for number in 1..=6 {
        scope.store(message("a", number)).await;
    }
    scope.commit().await.unwrap();
    let stored = Instant::now();
    let now = work.immediate();
    for number in 1..=2 {
        let again = now.store(message("a", number)).await.unwrap();
        assert_eq!(again, Settlement::Duplicate);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;

    now.report(next(&work).await.done()).await.unwrap();
    let waited = stored.elapsed().as_secs_f64();
    for _ in 0..2 {
        now.report(next(&work).await.failed("no")).await.unwrap();
    }
    assert_eq!(work.dead_letters(10).await.unwrap().len(), 1);
    let metrics = recorded.under("cdb.work.");
    assert_eq!(count(&metrics, "stored"), 6);
    assert_eq!(count(&metrics, "duplicates"), 2);
    // The start of the second attempt is written too.
    assert_eq!(metrics["flush.size"], [6.0, 1.0, 1.0, 1.0, 1.0]);
    assert_eq!(metrics["flush.duration"].len(), 5);
    assert_eq!(count(&metrics, "claimed inbox"), 3);
    assert_eq!(count(&metrics, "ended done"), 1);
    assert_eq!(count(&metrics, "ended failed"), 1);
    assert_eq!(count(&metrics, "ended dead"), 1);
    let ages = &metrics["queue.age inbox"];
    assert!(
        (0.29..=waited + 0.05).contains(&ages[0]),
        "{ages:?} of {waited}"
    );
    assert_eq!(metrics.get("order.violations"), None);
    assert_eq!(metrics.get("unflushed"), None);
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_the_store_refuses_is_counted_as_a_violation() {
    let recorded = Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let now = work.immediate();
    for number in 1..=2 {
        now.store(message("a", number)).await.unwrap();
    }
    now.report(next(&work).await.done()).await.unwrap();
    let second = next(&work).await;
    // Resets the stored progress of the first message.
    let shop = env.shop.view::<Work>();
    let stream = shop.query(Query::<WorkStream>::across_partitions());
    let stream = stream.first().await.unwrap().unwrap().document;
    let key = stream.key();
    let undone = Patch::<WorkStream>::new().set(WorkStream::DONE, 0);
    shop.run(undone.at(&key)).await.unwrap();
    let refused = now.report(second.done()).await.unwrap_err();
    assert!(matches!(refused, WorkError::OutOfOrder { .. }), "{refused}");
    let metrics = recorded.under("cdb.work.");
    assert_eq!(count(&metrics, "order.violations"), 1);
}

#[test]
fn entries_lost_with_their_strategy_are_counted() {
    let recorded = Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let (scope, env) = runtime.block_on(async {
        let env = TestEnv::start().await;
        let work = env.open(config()).await;
        let scope = work.scoped();
        for number in 1..=3 {
            drop(scope.store(message("a", number)).await);
        }
        (scope, env)
    });
    drop(scope);
    let metrics = recorded.under("cdb.work.");
    assert_eq!(count(&metrics, "unflushed"), 3);
    runtime.block_on(async { drop(env) });
}
