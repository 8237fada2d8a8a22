//! Failing handlers, reads, writes of positions, and renewals of leases.

use cdb_model::Document as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_client::feed::FeedStart;
use cdb_coordination::ChangeProcessor;
use cdb_coordination::change_feed::{ChangeProcessorConfig, FeedPart, feed_parts, feed_progress};
use tokio::time::{Instant, sleep};

use crate::change_feed::plant::{IsDead, Network, PROCESSOR, Site, config, note, reading};
use crate::recorded::Recorded;

/// A member whose handler works for some seconds.
struct SlowMember {
    processor: ChangeProcessor,
    /// The seconds in which a handler was running, since the start.
    seconds: Arc<Mutex<Vec<u64>>>,
}

impl SlowMember {
    async fn start(site: &Site, work: u64) -> Self {
        let (record, seconds, begun) = (site.record.clone(), Arc::default(), Instant::now());
        let noted: Arc<Mutex<Vec<u64>>> = Arc::clone(&seconds);
        let processor = site.run(config("a"), move |changes| {
            let (record, noted) = (record.clone(), noted.clone());
            async move {
                for _ in 0..work {
                    sleep(Duration::from_secs(1)).await;
                    noted.lock().unwrap().push(begun.elapsed().as_secs());
                }
                note(&record, "a", changes)
            }
        });
        let member = Self { processor, seconds };
        while member.worked().is_empty() {
            sleep(Duration::from_millis(100)).await;
        }
        member
    }

    fn worked(&self) -> Vec<u64> {
        self.seconds.lock().unwrap().clone()
    }

    /// The longest time in which no handler was running, in seconds.
    fn longest_rest(&self) -> u64 {
        let worked = self.worked();
        let pairs = worked.windows(2).map(|pair| pair[1] - pair[0]);
        pairs.max().unwrap_or_default()
    }
}

fn set(network: &Arc<Mutex<Network>>, to: Network) {
    *network.lock().unwrap() = to;
}

#[tokio::test(start_paused = true)]
async fn a_handler_finishes_although_renewals_fail_for_less_than_a_lease() {
    let site = or_skip!(Site::open(1).await);
    site.write(0..3, 1).await;
    let member = SlowMember::start(&site, 60).await;
    set(&site.network.part_writes, Network::Fails);
    sleep(Duration::from_secs(20)).await;
    set(&site.network.part_writes, Network::Works);
    site.handled(0..3, 1).await;
    sleep(Duration::from_secs(90)).await;
    assert_eq!(member.worked().len(), 60, "{:?}", member.worked());
    assert!(member.longest_rest() <= 2, "{:?}", member.worked());
    assert_eq!(site.recorded().len(), 3, "no change is handled twice");
    member.processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_ends_with_the_lease_that_cannot_be_renewed_and_its_changes_are_handled_again() {
    let site = or_skip!(Site::open(1).await);
    site.write(0..3, 1).await;
    let member = SlowMember::start(&site, 60).await;
    let begun = member.worked()[0];
    set(&site.network.part_writes, Network::Fails);
    sleep(Duration::from_secs(90)).await;
    let last = *member.worked().last().unwrap();
    assert!(
        (20..=begun + 31).contains(&last),
        "the lease of 30 s was not renewed, and the handler ran until {last} s"
    );
    assert!(site.recorded().is_empty());
    set(&site.network.part_writes, Network::Works);
    site.handled(0..3, 1).await;
    assert_eq!(site.recorded().len(), 3);
    member.processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_continues_while_a_renewal_waits_for_its_answer() {
    let site = or_skip!(Site::open(1).await);
    site.write(0..3, 1).await;
    let member = SlowMember::start(&site, 60).await;
    set(
        &site.network.part_writes,
        Network::Slow(Duration::from_secs(8)),
    );
    site.handled(0..3, 1).await;
    assert!(member.longest_rest() <= 2, "{:?}", member.worked());
    assert_eq!(member.worked().len(), 60);
    member.processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_reader_renews_its_lease_at_half_of_its_duration() {
    let site = or_skip!(Site::open(1).await);
    let processor = site.join("a", &IsDead::default());
    site.until_read(1).await;
    for _ in 0..120 {
        sleep(Duration::from_secs(1)).await;
        let until = site.parts().await[0].lease.until();
        let remaining = until.since(site.state.now());
        assert!(remaining > Duration::from_secs(12), "{remaining:?}");
    }
    processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stop_releases_a_lease_that_is_being_renewed() {
    let site = or_skip!(Site::open(1).await);
    let processor = site.join("a", &IsDead::default());
    site.until_read(1).await;
    sleep(Duration::from_secs(2)).await; // the first position is stored
    let slow = Network::Slow(Duration::from_secs(3));
    set(&site.network.part_writes, slow);
    site.network.is_slow.notified().await;
    sleep(Duration::from_secs(1)).await;
    processor.stop().await;
    let part = site.parts().await.remove(0);
    assert_eq!(part.lease.holder(), None, "{part:?}");
}

#[tokio::test(start_paused = true)]
async fn a_position_that_cannot_be_stored_at_once_does_not_repeat_its_changes() {
    let site = or_skip!(Site::open(1).await);
    // Longer than the attempts of the client at one request.
    let long = ChangeProcessorConfig {
        lease: Duration::from_secs(120),
        ..config("a")
    };
    let processor = site.join_with(long, &IsDead::default());
    site.until_read(1).await;
    sleep(Duration::from_secs(2)).await; // the first position is stored
    set(&site.network.part_writes, Network::Fails);
    site.write(0..3, 1).await;
    site.handled(0..3, 1).await;
    sleep(Duration::from_secs(70)).await;
    set(&site.network.part_writes, Network::Works);
    site.write(3..6, 1).await;
    site.handled(3..6, 1).await;
    assert_eq!(site.recorded().len(), 6, "{:#?}", site.recorded());
    processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_receives_the_same_changes_again_after_growing_delays() {
    let site = or_skip!(Site::open(1).await);
    let (record, attempts) = (site.record.clone(), Arc::new(Mutex::new(Vec::new())));
    let noted = attempts.clone();
    site.write(0..3, 1).await;
    let processor = site.run(config("a"), move |changes| {
        let mut attempts = noted.lock().unwrap();
        attempts.push(Instant::now());
        let attempt = attempts.len();
        drop(attempts);
        let record = record.clone();
        assert!(attempt != 1, "a panic before the first await");
        async move {
            assert!(attempt > 4, "the handler cannot cope");
            note(&record, "a", changes)
        }
    });
    site.handled(0..3, 1).await;
    let attempts = attempts.lock().unwrap().clone();
    assert_eq!(attempts.len(), 5);
    let last = attempts[4] - attempts[3];
    assert!(last > Duration::from_secs(3), "{last:?}");
    processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_feed_from_now_keeps_its_start_although_the_first_read_fails() {
    let site = or_skip!(Site::open(1).await);
    let now = ChangeProcessorConfig {
        start: FeedStart::Now,
        ..config("a")
    };
    set(&site.network.feed_reads, Network::Fails);
    let first = site.join_with(now.clone(), &IsDead::default());
    site.until_read(1).await;
    sleep(Duration::from_secs(200)).await;
    set(&site.network.feed_reads, Network::Works);
    sleep(Duration::from_secs(90)).await;
    first.stop().await;
    // Between two processes.
    site.write(0..3, 1).await;
    let second = site.join_with(now, &IsDead::default());
    site.handled(0..3, 1).await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn documents_of_other_types_neither_delay_the_feed_nor_hide_its_lag() {
    let site = or_skip!(Site::open(1).await);
    let small = ChangeProcessorConfig {
        page_size: 10,
        ..config("a")
    };
    let first = site.join_with(small.clone(), &IsDead::default());
    site.until_read(1).await;
    first.stop().await;
    site.write_orders(0..300).await;
    site.write(0..3, 1).await;
    sleep(Duration::from_secs(60)).await;
    let parts = feed_progress(PROCESSOR, &site.plant, &site.state).await;
    let lag = parts.unwrap()[0].lag;
    assert!(lag > Duration::from_secs(30), "{lag:?}");

    let begun = Instant::now();
    let second = site.join_with(small.clone(), &IsDead::default());
    site.handled(0..3, 1).await;
    let elapsed = begun.elapsed();
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    let position = site.parts().await[0].cursor.clone();
    // The position moves over them too, so that no reader sees them again.
    site.write_orders(300..330).await;
    sleep(Duration::from_secs(5)).await;
    assert_ne!(site.parts().await[0].cursor, position);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_lag_grows_while_a_handler_hangs_and_ends_with_the_reader() {
    let recorded = Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let site = or_skip!(Site::open(1).await);
    let lag = || {
        let gauges = recorded.under("cdb.change_feed.lag");
        gauges.into_values().flatten().next().unwrap_or_default()
    };
    let running = Arc::new(AtomicU64::new(0));
    let counted = running.clone();
    site.plant.run(reading(0, 1).upsert()).await.unwrap();
    let processor = site.run(config("a"), move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {
            sleep(Duration::from_secs(300)).await;
            Ok(())
        }
    });
    while running.load(Ordering::SeqCst) == 0 {
        sleep(Duration::from_millis(100)).await;
    }
    sleep(Duration::from_secs(120)).await;
    assert!(lag() > 100.0, "{}", lag());
    processor.stop().await;
    assert!(lag() == 0.0, "{}", lag());
    assert_eq!(running.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn durations_that_do_not_fit_are_refused_when_a_processor_starts() {
    let site = or_skip!(Site::open(1).await);
    let (plant, state) = site.process(&IsDead::default());
    let mut short = config("a");
    short.lease = short.heartbeat * 2;
    let started = ChangeProcessor::builder(PROCESSOR, &plant, &state)
        .config(short)
        .start(async |_| Ok(()));
    let error = started.unwrap_err().to_string();
    assert!(error.contains("longer than `lease`"), "{error}");
}

/// Waits until the part of a site with one physical partition meets a condition.
async fn until_part(site: &Site, is_met: impl Fn(&FeedPart) -> bool) -> FeedPart {
    let client = site.backend.builder().build().unwrap();
    for _ in 0..1_200 {
        let mut parts = feed_parts(&client, &site.state).await.unwrap();
        if parts.len() == 1 && is_met(&parts[0]) {
            return parts.remove(0);
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("{:#?}", feed_parts(&client, &site.state).await);
}

#[tokio::test(start_paused = true)]
async fn a_failing_handler_is_shown_with_its_error_until_it_succeeds() {
    let site = or_skip!(Site::open(1).await);
    site.write(0..3, 1).await;
    let is_fixed = Arc::new(AtomicU64::new(0));
    let (fixed, record) = (is_fixed.clone(), site.record.clone());
    let start = || {
        let (fixed, record) = (fixed.clone(), record.clone());
        site.run(config("a"), move |changes| {
            let handled = match fixed.load(Ordering::SeqCst) {
                0 => Err(format!("no such sensor{}", "!".repeat(5_000)).into()),
                _ => note(&record, "a", changes),
            };
            async move { handled }
        })
    };
    let processor = start();
    let part = until_part(&site, |part| part.failure.is_some()).await;
    let failure = part.failure.unwrap();
    assert_eq!(failure.attempts, 1);
    let reason = "the handler of changes failed: no such sensor!";
    assert!(failure.reason.starts_with(reason), "{}", failure.reason);
    assert_eq!(failure.reason.len(), 1000);
    assert!(failure.next_attempt > failure.at, "{failure:?}");
    assert_eq!(part.source.unwrap().container, "plant");
    assert!(part.reader.unwrap().starts_with("a ("));
    let progress = feed_progress(PROCESSOR, &site.plant, &site.state).await;
    assert!(progress.unwrap()[0].failure.is_some());
    let part = until_part(&site, |part| part.lag > Some(Duration::from_secs(10))).await;
    assert!(part.failure.unwrap().attempts > 1);
    processor.stop().await;
    is_fixed.store(1, Ordering::SeqCst);
    let processor = start();
    let part = until_part(&site, |part| part.failure.is_none()).await;
    assert_eq!(part.lag, Some(Duration::ZERO));
    processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_was_stored_without_an_answer_is_removed_after_a_success() {
    let site = or_skip!(Site::open(1).await);
    let is_fixed = Arc::new(AtomicU64::new(0));
    let (fixed, record) = (is_fixed.clone(), site.record.clone());
    let network = site.network.part_writes.clone();
    let processor = site.run(config("a"), move |changes| {
        let handled = match fixed.load(Ordering::SeqCst) {
            0 => {
                set(&network, Network::LosesAnswers);
                Err("no such sensor".into())
            }
            _ => note(&record, "a", changes),
        };
        async move { handled }
    });
    site.until_read(1).await;
    sleep(Duration::from_secs(2)).await; // the first position is stored
    site.write(0..3, 1).await;
    until_part(&site, |part| part.failure.is_some()).await;
    is_fixed.store(1, Ordering::SeqCst);
    set(&site.network.part_writes, Network::Works);
    site.handled(0..3, 1).await;
    until_part(&site, |part| part.failure.is_none()).await;
    processor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_cannot_be_read_is_shown_until_it_can() {
    let site = or_skip!(Site::open(1).await);
    set(&site.network.feed_reads, Network::Fails);
    let processor = site.join("a", &IsDead::default());
    let part = until_part(&site, |part| part.failure.is_some()).await;
    let reason = part.failure.unwrap().reason;
    assert!(reason.contains("cannot read the change feed"), "{reason}");
    set(&site.network.feed_reads, Network::Works);
    until_part(&site, |part| part.failure.is_none()).await;
    processor.stop().await;
}
