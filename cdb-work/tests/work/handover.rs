//! Partitions change their owner: after a shutdown, an expired lease, or another division.

use std::time::Duration;

use cdb_work::{Partitions, WorkCoordinator, WorkError};

use crate::test_env::{Process, TestEnv, applied, config, message, next, nothing};

#[tokio::test(start_paused = true)]
async fn a_paused_owner_cannot_complete_messages_after_a_takeover() {
    let env = TestEnv::start().await;
    let (paused, process) = or_skip!(env.open_switched(config()).await);
    for n in 1..=2 {
        paused.immediate().store(message("a", n)).await.unwrap();
    }
    let old = next(&paused).await;
    process.send_replace(Process::Paused);
    tokio::time::sleep(config().lease).await;
    let other = env.open(config()).await;
    let taken = next(&other).await;
    assert_eq!(taken.message().message_id, "1");
    process.send_replace(Process::Runs);
    assert!(taken.fencing_token() > old.fencing_token());
    let refused = paused.immediate().report(applied(old)).await.unwrap_err();
    assert!(matches!(refused, WorkError::NotOwner { .. }), "{refused}");
    nothing(&paused).await;
    other.immediate().report(applied(taken)).await.unwrap();
    assert_eq!(next(&other).await.message().message_id, "2");
    assert_eq!(env.applied().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_releases_all_partitions_at_once() {
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.lease = Duration::from_secs(600);
    let first = env.open(settings.clone()).await;
    first.immediate().store(message("a", 1)).await.unwrap();
    assert_eq!(first.partitions().len(), 4);
    first.shutdown().await.unwrap();
    assert!(first.partitions().is_empty());
    let second = env.open(settings).await;
    next(&second).await;
}

#[tokio::test(start_paused = true)]
async fn partitions_are_divided_and_every_stream_is_served_once() {
    let env = TestEnv::start().await;
    let first = env.open_share(config(), 0, 2).await;
    let second = env.open_share(config(), 1, 2).await;
    assert_eq!(first.partitions(), [0, 2]);
    assert_eq!(second.partitions(), [1, 3]);
    for stream in 0..20 {
        ok!(first.immediate().store(message(&stream.to_string(), 1)));
    }
    let mut streams = Vec::new();
    for work in [&first, &second] {
        let mut kept = Vec::new();
        loop {
            let claimed = work.claim(5, Duration::from_millis(300)).await;
            if claimed.is_empty() {
                break;
            }
            streams.extend(
                claimed
                    .iter()
                    .map(|claimed| claimed.message().stream.clone()),
            );
            kept.extend(claimed);
        }
        assert!(!kept.is_empty());
    }
    streams.sort_by_key(|stream| stream.parse::<u32>().unwrap());
    assert_eq!(streams, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn coordinators_must_agree_on_the_number_of_partitions() {
    let env = TestEnv::start().await;
    let _first = env.open(config()).await;
    let mut settings = config();
    settings.partitions = Partitions::new(8).unwrap();
    let slots = std::sync::Arc::new(cdb_coordination::membership::InMemoryLeaseProvider::all());
    let refused = WorkCoordinator::open(env.shop.view(), slots, settings).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("configure 4"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_another_coordinator_is_refused() {
    let env = TestEnv::start().await;
    let first = env.open_share(config(), 0, 2).await;
    let second = env.open_share(config(), 1, 2).await;
    for stream in 0..10 {
        ok!(first.immediate().store(message(&stream.to_string(), 1)));
    }
    let foreign = next(&first).await;
    let refused = second.immediate().report(foreign.done()).await.unwrap_err();
    assert!(matches!(refused, WorkError::NotOwner { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn clocks_ten_seconds_apart_cost_time_and_neither_order_nor_effects() {
    let env = TestEnv::start().await;
    let mut settings = config();
    settings.lease = Duration::from_secs(5);
    let behind = env.open_skewed(settings.clone(), false).await;
    for n in 1..=3 {
        behind.immediate().store(message("a", n)).await.unwrap();
    }
    let old = next(&behind).await;
    // By this clock every lease of the other coordinator has expired.
    let ahead = env.open_skewed(settings, true).await;
    for n in 1..=3 {
        let taken = next(&ahead).await;
        assert_eq!(taken.message().message_id, n.to_string());
        ahead.immediate().report(applied(taken)).await.unwrap();
    }
    let refused = behind.immediate().report(applied(old)).await.unwrap_err();
    assert!(matches!(refused, WorkError::NotOwner { .. }), "{refused}");
    nothing(&behind).await;
    assert_eq!(env.applied().await.len(), 3);
}
