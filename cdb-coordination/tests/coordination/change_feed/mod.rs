//! Change-feed processors on the emulator, in simulated time.

mod failures;
mod plant;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cdb_client::feed::FeedStart;
use cdb_client::transport::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use cdb_coordination::Leases;
use cdb_coordination::change_feed::{
    ChangeFeedState, ChangeProcessorConfig, PartDocument, feed_progress, reset_feed,
};
use cdb_model::{Document as _, Patch};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use plant::{IsDead, PROCESSOR, Site, config, note, reading};

/// Values of a site only grow, and so do the log sequence numbers of a part.
fn check_order(site: &Site) {
    let mut newest = BTreeMap::new();
    for one in site.recorded() {
        let before = newest.insert(one.site.clone(), (one.value, one.lsn));
        assert!(
            before.is_none_or(|before| before <= (one.value, one.lsn)),
            "{one:?} after {before:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_members_share_the_parts_and_keep_the_order() {
    let site = or_skip!(Site::open(4).await);
    let alive = IsDead::default();
    let members = [site.join("a", &alive), site.join("b", &alive)];
    site.until_read(4).await;
    for value in 1..=5 {
        site.write(0..40, value).await;
        sleep(Duration::from_millis(700)).await;
    }
    site.handled(0..40, 5).await;
    check_order(&site);
    for member in ["a", "b"] {
        assert!(
            site.recorded().iter().any(|one| one.member == member),
            "{member}"
        );
    }
    for member in members {
        member.stop().await;
    }
    let held = site.parts().await;
    assert!(
        held.iter().all(|part| part.lease.holder().is_none()),
        "{held:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_start_decides_where_the_feed_begins_and_the_stored_position_where_it_continues()
{
    let site = or_skip!(Site::open(2).await);
    site.write(0..10, 1).await;
    let now = ChangeProcessorConfig {
        start: FeedStart::Now,
        ..config("a")
    };
    let alive = IsDead::default();
    let first = site.join_with(now.clone(), &alive);
    site.until_read(2).await;
    site.write(0..5, 2).await;
    site.handled(0..5, 2).await;
    first.stop().await;
    assert!(site.recorded().iter().all(|one| one.value == 2));
    site.write(5..10, 3).await;
    let second = site.join_with(now, &alive);
    site.handled(5..10, 3).await;
    assert_eq!(site.recorded().len(), 10, "{:#?}", site.recorded());
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_member_is_replaced_within_ten_seconds() {
    let site = or_skip!(Site::open(4).await);
    let (alive, dead) = (IsDead::default(), IsDead::default());
    let members = [site.join("a", &alive), site.join("b", &dead)];
    site.write(0..40, 1).await;
    site.handled(0..40, 1).await;
    site.until_read(4).await;
    dead.store(true, Ordering::SeqCst);
    let killed = Instant::now();
    site.write(0..40, 2).await;
    site.handled(0..40, 2).await;
    let elapsed = killed.elapsed();
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    check_order(&site);
    let [survivor, killed] = members;
    drop(killed);
    survivor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_member_receives_its_share_within_ten_seconds() {
    let site = or_skip!(Site::open(4).await);
    let alive = IsDead::default();
    let first = site.join("a", &alive);
    site.until_read(4).await;
    let second = site.join("b", &alive);
    let joined = Instant::now();
    let of_second = async || {
        let parts = site.parts().await.into_iter();
        let holders = parts.filter_map(|part| part.lease.holder().map(str::to_owned));
        holders.filter(|holder| holder.starts_with("b (")).count()
    };
    while of_second().await < 2 {
        assert!(joined.elapsed() < Duration::from_secs(10));
        sleep(Duration::from_millis(100)).await;
    }
    site.write(0..40, 1).await;
    site.handled(0..40, 1).await;
    assert_eq!(site.recorded().len(), 40, "no change is handled twice");
    first.stop().await;
    site.write(0..40, 2).await;
    site.handled(0..40, 2).await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_without_the_lease_cannot_move_the_position() {
    let site = or_skip!(Site::open(1).await);
    let (record, entered, go) = (
        site.record.clone(),
        Arc::new(Notify::new()),
        Arc::new(Notify::new()),
    );
    let (is_in, may_go) = (entered.clone(), go.clone());
    site.write(0..3, 1).await;
    let processor = site.run(config("a"), move |changes| {
        let (record, is_in, may_go) = (record.clone(), is_in.clone(), may_go.clone());
        async move {
            is_in.notify_one();
            may_go.notified().await;
            note(&record, "a", changes)
        }
    });
    entered.notified().await;
    let part = site.parts().await.remove(0);
    let leases = Leases::<ChangeFeedState, PartDocument>::new(&site.state, "thief");
    leases.break_lease(&part.key()).await.unwrap();
    let mut stolen = leases.acquire(&part.key()).await.unwrap();
    go.notify_one();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(site.recorded().len(), 3);
    assert_eq!(
        site.parts().await[0].cursor,
        part.cursor,
        "the position has moved"
    );
    ok!(stolen.run(Patch::new().set(PartDocument::DIVIDED, false)));
    stolen.release().await.unwrap();
    // The changes are handled again.
    go.notify_one();
    while site.recorded().len() < 6 {
        sleep(Duration::from_millis(100)).await;
    }
    processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_split_loses_and_repeats_nothing() {
    let site = or_skip!(Site::open(1).await);
    let emulator = site.backend.emulator.as_ref().unwrap();
    let database = &*site.backend.database;
    let alive = IsDead::default();
    site.write(0..30, 1).await;
    let first = site.join("a", &alive);
    site.handled(0..30, 1).await;
    // While it runs.
    let [left, _] = emulator.split(database, "plant", "0").unwrap();
    site.write(0..30, 2).await;
    site.handled(0..30, 2).await;
    site.until_read(2).await;
    first.stop().await;
    // While nothing runs.
    emulator.split(database, "plant", &left).unwrap();
    site.write(0..30, 3).await;
    let second = site.join("b", &alive);
    site.handled(0..30, 3).await;
    site.until_read(3).await;
    check_order(&site);
    assert_eq!(site.recorded().len(), 90, "no change is handled twice");
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_handler_receives_the_same_changes_again() {
    let site = or_skip!(Site::open(1).await);
    let (record, attempts) = (site.record.clone(), Arc::new(AtomicU64::new(0)));
    let counted = attempts.clone();
    site.write(0..3, 1).await;
    let processor = site.run(config("a"), move |changes| {
        let attempt = counted.fetch_add(1, Ordering::SeqCst);
        let result = match attempt {
            0..3 => Err("the alarm is not reachable".into()),
            _ => note(&record, "a", changes),
        };
        async move { result }
    });
    site.until_read(1).await;
    let parts = ok!(feed_progress(PROCESSOR, &site.plant, &site.state));
    assert!(
        parts[0].reader.as_deref().unwrap().starts_with("a ("),
        "{parts:?}"
    );
    site.handled(0..3, 1).await;
    assert_eq!(attempts.load(Ordering::SeqCst), 4);
    assert_eq!(site.recorded().len(), 3);
    processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_document_is_an_error_in_its_row() {
    let site = or_skip!(Site::open(1).await);
    site.spoil(0).await;
    site.write(1..3, 1).await;
    let (record, unreadable) = (site.record.clone(), Arc::new(AtomicU64::new(0)));
    let counted = unreadable.clone();
    let processor = site.run(config("a"), move |mut changes| {
        let before = changes.len();
        changes.retain(|change| change.row.is_ok());
        let spoiled = u64::try_from(before - changes.len()).unwrap();
        counted.fetch_add(spoiled, Ordering::SeqCst);
        let result = note(&record, "a", changes);
        async move { result }
    });
    site.handled(1..3, 1).await;
    assert_eq!(unreadable.load(Ordering::SeqCst), 1);
    processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reset_processor_starts_again() {
    let site = or_skip!(Site::open(2).await);
    let alive = IsDead::default();
    site.write(0..6, 1).await;
    let processor = site.join("a", &alive);
    site.handled(0..6, 1).await;
    site.until_read(2).await;
    ok!(reset_feed(PROCESSOR, &site.state, FeedStart::Beginning));
    while site.recorded().len() < 12 {
        sleep(Duration::from_millis(100)).await;
    }
    site.write(0..1, 2).await;
    site.handled(0..1, 2).await;
    processor.stop().await;
    assert_eq!(site.recorded().len(), 13);
}

#[tokio::test(start_paused = true)]
async fn a_reset_deletes_the_parts_before_the_last_generation() {
    let site = or_skip!(Site::open(4).await);
    let processor = site.join("a", &IsDead::default());
    for generation in 1..=4 {
        site.until_read(4).await;
        ok!(reset_feed(PROCESSOR, &site.state, FeedStart::Beginning));
        while site.parts().await[0].generation < generation {
            sleep(Duration::from_millis(100)).await;
        }
    }
    site.until_read(4).await;
    let parts = site.all_parts().await;
    assert!(parts.iter().all(|part| part.generation >= 3), "{parts:#?}");
    processor.stop().await;
}

/// Sends batches late.
#[derive(Debug)]
struct LateBatches(SimulatedTime);

#[async_trait]
impl Transport for LateBatches {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        if request.headers.contains_key("x-ms-cosmos-is-batch-request") {
            sleep(Duration::from_secs(4)).await;
        }
        self.0.send(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_counts_although_the_processor_starts_meanwhile_for_the_first_time() {
    let site = or_skip!(Site::open(1).await);
    let late = LateBatches(site.backend.time.clone().unwrap());
    let client = site.backend.builder().transport(late).build().unwrap();
    let state = client.database(&site.backend.database).container("state");
    let reset = reset_feed(PROCESSOR, &state, FeedStart::Now);
    let alive = IsDead::default();
    let (reset, processor) = tokio::join!(reset, async { site.join("a", &alive) });
    reset.unwrap();
    site.until_read(1).await;
    assert_eq!(site.parts().await[0].generation, 1);
    processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_receives_at_most_a_page_of_all_physical_partitions() {
    let site = or_skip!(Site::open(4).await);
    site.write(0..100, 1).await;
    let (record, most) = (site.record.clone(), Arc::new(AtomicU64::new(0)));
    let seen = most.clone();
    let config = ChangeProcessorConfig {
        page_size: 10,
        ..config("a")
    };
    let processor = site.run(config, move |changes| {
        seen.fetch_max(u64::try_from(changes.len()).unwrap(), Ordering::SeqCst);
        let result = note(&record, "a", changes);
        async move { result }
    });
    site.handled(0..100, 1).await;
    assert_eq!(most.load(Ordering::SeqCst), 10);
    assert_eq!(site.recorded().len(), 100);
    processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replaced_process_leaves_its_parts_and_rests() {
    let site = or_skip!(Site::open(2).await);
    let alive = IsDead::default();
    let replaced = site.join("a", &alive);
    site.until_read(2).await;
    let second = site.join("a", &alive);
    sleep(Duration::from_secs(60)).await;
    site.until_read(2).await;
    let emulator = site.backend.emulator.as_ref().unwrap();
    emulator.reset_requests();
    sleep(Duration::from_secs(60)).await;
    let queries: u64 = emulator.requests().queries.into_values().sum();
    assert!(queries < 20, "{queries} queries in a minute");
    site.write(0..10, 1).await;
    site.handled(0..10, 1).await;
    second.stop().await;
    replaced.stop().await;
}

#[tokio::test(start_paused = true)]
async fn progress_is_the_age_of_the_oldest_change_that_is_not_handled() {
    let site = or_skip!(Site::open(2).await);
    let of = async || {
        feed_progress(PROCESSOR, &site.plant, &site.state)
            .await
            .unwrap()
    };
    assert!(of().await.is_empty(), "it has never run");
    let alive = IsDead::default();
    site.write(0..6, 1).await;
    let processor = site.join("a", &alive);
    site.handled(0..6, 1).await;
    site.until_read(2).await;
    processor.stop().await;
    let lags = || async {
        of().await
            .into_iter()
            .map(|part| part.lag)
            .collect::<Vec<_>>()
    };
    assert_eq!(lags().await, [Duration::ZERO; 2]);
    site.plant.run(reading(1, 2).upsert()).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    let mut lags = lags().await;
    lags.sort();
    assert!(
        lags[0].is_zero() && lags[1] > Duration::from_secs(30),
        "{lags:?}"
    );
}
