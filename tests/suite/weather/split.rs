//! A partition that splits while it is sick, and one that stays silent for hours.

use std::time::Duration;

use cdb_emulator::{Effect, Fault};
use tokio::time::{Instant, sleep};

use super::network::What;
use super::site::Site;
use crate::network::{ANY, QUERY, WRITE};
use crate::partitions::SICK;

const MS: fn(u64) -> Duration = Duration::from_millis;
const SECOND: Duration = Duration::from_secs(1);

/// The time in which the instances go on after the split, and that of the longest of them.
const AFTER_SPLIT: Duration = Duration::from_secs(35 + 10);

#[derive(Clone, Copy, Debug)]
enum Sickness {
    Silent,
    SilentWrites,
    SilentQueries,
    Slow(u64),
    Throttled(f64),
    Unavailable,
}

/// Returns how long the instances of the partition take after its split.
async fn split_while(sickness: Sickness, runtimes: usize, sick_for: Duration) -> Option<Duration> {
    let site = Site::open(runtimes, (2, 2), 1).await?;
    sleep(MS(1_500)).await;
    let sick = site.within(&[SICK]);
    let own = sick[..12].to_vec();
    for instance in &own[..6] {
        site.start(instance, "Busy", "5").await;
    }
    sleep(MS(700)).await;
    for instance in &own[6..] {
        site.start(instance, "Busy", "5").await;
    }
    let apply = |instances: &[(String, String)]| match sickness {
        Sickness::Silent => site.rules.add(&[SICK], instances, ANY, 1.0, What::Silent),
        Sickness::SilentWrites => site.rules.add(&[SICK], instances, WRITE, 1.0, What::Silent),
        Sickness::SilentQueries => site.rules.add(&[SICK], instances, QUERY, 1.0, What::Silent),
        Sickness::Slow(ms) => {
            site.rules
                .add(&[SICK], instances, ANY, 1.0, What::AnsweredLate(MS(ms)))
        }
        Sickness::Throttled(share) => {
            let effect = Effect::throttled(SECOND);
            let fault = Fault::with_probability(effect, share).on_partition(SICK);
            site.emulator().inject(fault);
        }
        Sickness::Unavailable => {
            let fault = Fault::always(Effect::error(503, 0)).on_partition(SICK);
            site.emulator().inject(fault);
        }
    };
    apply(&site.all);
    sleep(sick_for).await;
    let name = site.provider.container().name();
    let split = site.emulator().split("duroxide", name, SICK);
    split.expect("it is split");
    // Only requests that name the split partition stay without an answer.
    site.rules.clear();
    if !matches!(sickness, Sickness::Throttled(_) | Sickness::Unavailable) {
        apply(&[]);
    }
    let took = site.until_completed(&own, SECOND * 300).await;
    println!("{sickness:?} for {sick_for:?}, {runtimes} runtimes: all {took:?} after the split");
    site.close().await;
    Some(took.unwrap_or(Duration::MAX))
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn splits() {
    let mut broken = Vec::new();
    for runtimes in [1, 3] {
        for sickness in [
            Sickness::Silent,
            Sickness::SilentWrites,
            Sickness::SilentQueries,
            Sickness::Slow(3_000),
            Sickness::Slow(8_000),
            Sickness::Throttled(1.0),
            Sickness::Throttled(0.8),
            Sickness::Unavailable,
        ] {
            for seconds in [2, 40] {
                let took = split_while(sickness, runtimes, SECOND * seconds).await;
                if took.is_some_and(|took| took > AFTER_SPLIT) {
                    broken.push(format!("{sickness:?}, {runtimes}, {seconds}: {took:?}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn a_partition_that_is_silent_for_hours_causes_few_requests() {
    for runtimes in [1, 2] {
        let Some(site) = Site::open(runtimes, (2, 2), 1).await else {
            return;
        };
        sleep(MS(1_500)).await;
        site.rules.take_counts();
        sleep(SECOND * 600).await;
        let idle = site.rules.take_counts();
        let sick = site.within(&[SICK]);
        for instance in &sick[..12] {
            site.start(instance, "Busy", "20").await;
        }
        sleep(MS(400)).await;
        site.rules.add(&[SICK], &site.all, ANY, 1.0, What::Silent);
        sleep(SECOND * 60).await;
        site.rules.take_counts();
        let begun = Instant::now();
        let mut most = (0, 0);
        for minutes in 1..=12 {
            sleep(SECOND * 600).await;
            let counts = site.rules.take_counts();
            if minutes == 1 {
                println!("first: {counts:?}");
            }
            most = (counts.0.max(most.0), counts.1.max(most.1));
        }
        println!(
            "{runtimes} runtimes: idle {idle:?}, silent {most:?} in 10 minutes (requests, listings), {:?}",
            begun.elapsed()
        );
        let each = runtimes * 600 / 30 + runtimes;
        assert!(most.1 <= each, "{} listings instead of {each}", most.1);
        assert!(
            most.0 <= idle.0 * 2,
            "{} requests instead of {}",
            most.0,
            idle.0
        );
        site.rules.clear();
        let took = site.until_completed(&sick[..12], SECOND * 120).await;
        println!("all {took:?} after");
        assert!(took.is_some_and(|took| took < SECOND * 60), "{took:?}");
        site.close().await;
    }
}
