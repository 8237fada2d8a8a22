//! What comes to a limit later: another tenant, a process that has just started, the work of a killed process. Time is
//! simulated.

use std::time::Duration;

use duroxide::providers::TagFilter;
use tokio::time::{Instant, sleep};

use crate::fair_work::rule;
use crate::limited_runtimes::{Farm, Run, of};
use crate::network::{ANY, BATCH, Kind};

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Returns when the first activities of these instances started.
fn first(farm: &Farm, prefix: &'static str) -> Instant {
    let starts = farm.log.of(of(prefix)).into_iter().map(|run| run.started);
    starts.min().expect("one has started")
}

/// A single runtime works off a flood of one tenant when another tenant comes.
#[tokio::test(start_paused = true)]
async fn a_tenant_that_comes_during_the_flood_of_another_has_its_share_at_once() {
    for flood in ["Work acme 20 1000", "Work acme 90 1000"] {
        let farm = or_skip!(Farm::open(1, 2, vec![rule("tenant=*").weight(1)]).await);
        farm.start("acme:f", "Fan", flood).await;
        sleep(secs(2)).await;
        let begun = Instant::now();
        farm.start("gold:x", "Fan", "Work gold 1 1000").await;
        sleep(secs(9)).await;
        let waited = first(&farm, "gold") - begun;
        assert!(
            waited <= Duration::from_millis(1_100),
            "{flood}: {waited:?}"
        );
        farm.close().await;
    }
}

/// As after a restart: the document of the key exists, and the former process was shut down.
#[tokio::test(start_paused = true)]
async fn a_process_that_has_just_started_uses_a_limit_that_nobody_uses() {
    let mut farm = or_skip!(Farm::open(1, 12, vec![rule("tenant=*").running(10)]).await);
    farm.start("acme:1", "Fan", "Work acme 8 1000").await;
    farm.until_ended(8, secs(20)).await.expect("they end");
    let stopped = farm.sites.remove(0);
    stopped.runtime.shutdown(None).await;
    stopped.provider.shutdown(secs(5)).await;
    sleep(secs(3)).await;
    farm.join(12, TagFilter::Any).await;
    farm.sites[0]
        .network
        .slow_down(ANY, Duration::from_millis(3));
    sleep(secs(11)).await;
    let begun = Instant::now();
    farm.start("acme:2", "Fan", "Work acme 8 1000").await;
    farm.until_ended(16, secs(20)).await.expect("they end");
    let late = farm.log.of(of("acme:2")).into_iter().map(|run| run.started);
    let late: Vec<Duration> = late.map(|at| at - begun).collect();
    let waited = *late.iter().max().expect("eight have started");
    assert!(waited <= Duration::from_millis(300), "{waited:?}");
    farm.close().await;
}

/// A batch has room for fewer than a hundred activities: the others are delivered after the commit.
#[tokio::test(start_paused = true)]
async fn a_turn_with_more_activities_than_a_batch_starts_the_first_ones_at_once() {
    for count in [90, 110, 250] {
        let farm = or_skip!(Farm::open(1, 4, vec![rule("tenant=*").running(4)]).await);
        sleep(secs(1)).await;
        let begun = Instant::now();
        farm.start("acme:f", "Fan", &format!("Work acme {count} 500"))
            .await;
        sleep(secs(4)).await;
        let waited = first(&farm, "acme") - begun;
        assert!(waited <= Duration::from_millis(300), "{count}: {waited:?}");
        farm.close().await;
    }
}

/// The answer to the delivery is slow, and the activities run before it.
#[tokio::test(start_paused = true)]
async fn activities_that_a_poll_finds_before_their_delivery_is_answered_run_once() {
    const DELIVERY: Kind = |request| {
        BATCH(request) && String::from_utf8_lossy(&request.body).contains(r#""type":"inbox""#)
    };
    let farm = or_skip!(Farm::open(1, 4, vec![rule("tenant=*").weight(1)]).await);
    farm.sites[0].network.answer_late(DELIVERY, secs(2));
    farm.start("acme:f", "Fan", "Work acme 110 3000").await;
    sleep(secs(150)).await;
    assert_eq!(farm.log.of(of("acme")).len(), 110);
    farm.close().await;
}

#[tokio::test(start_paused = true)]
async fn the_work_of_a_killed_process_keeps_its_place_in_line() {
    let mut farm = or_skip!(Farm::open(1, 4, vec![rule("tag=bank").running(4)]).await);
    farm.start("old", "Fan", "Work bank 4 600000").await;
    sleep(secs(5)).await;
    farm.sites[0].network.swallow(ANY);
    let killed = farm.sites.remove(0);
    killed.runtime.shutdown(Some(0)).await;
    farm.join(4, TagFilter::Any).await;
    farm.start("young", "Fan", "Work bank 20 30000").await;
    sleep(secs(200)).await;
    let order: Vec<Run> = farm.log.of(|_| true);
    let place = order.iter().skip(4).position(|run| run.instance == "old");
    assert!(place.is_some_and(|place| place <= 4), "{order:?}");
    farm.close().await;
}
