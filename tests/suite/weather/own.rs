//! How long the own work of a sick partition takes, compared with what the partition permits.

use std::time::Duration;

use cdb_emulator::{Effect, Fault};
use tokio::time::sleep;

use super::elsewhere::WRITES;
use super::network::What;
use super::site::Site;
use crate::network::WRITE;
use crate::partitions::SICK;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// The writes in a row of an instance with ten rounds of two activities and a timer.
const WRITES_IN_A_ROW: f64 = 10.0 * 5.0;

async fn own_work(
    share: f64,
    pause: Duration,
    status: u16,
    count: usize,
) -> Option<(Duration, f64)> {
    let site = Site::open(1, (2, 2), 1).await?;
    sleep(MS(1_500)).await;
    let sick = site.within(&[SICK])[..count].to_vec();
    for instance in &sick {
        site.start(instance, "Busy", "10").await;
    }
    let effect = match status {
        429 => Effect::throttled(pause),
        status => Effect::error(status, 0),
    };
    let fault = Fault::with_probability(effect, share).on_partition(SICK);
    let fault = WRITES.iter().fold(fault, |fault, kind| fault.on(*kind));
    site.emulator().inject(fault);
    let took = site
        .until_completed(&sick, Duration::from_secs(1_500))
        .await;
    let took = took.unwrap_or(Duration::MAX);
    // Each refused write is repeated after the pause.
    let permitted = share / (1.0 - share) * pause.as_secs_f64() * WRITES_IN_A_ROW + 4.0;
    site.close().await;
    Some((took, permitted))
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn own_work_goes_on() {
    for count in [1, 8] {
        for (share, pause, status) in [
            (0.5, 50, 429),
            (0.5, 1_000, 429),
            (0.8, 50, 429),
            (0.8, 1_000, 429),
            (0.9, 50, 429),
            (0.95, 50, 429),
            (0.5, 100, 503),
            (0.8, 100, 503),
            (0.9, 100, 503),
        ] {
            let Some((took, permitted)) = own_work(share, MS(pause), status, count).await else {
                return;
            };
            println!(
                "{count} instances, {share} refused by {status} for {pause} ms: {took:?}, permitted in a row {permitted:.1} s"
            );
        }
    }
}

/// A partition whose writes take long, or get no answer while its reads do.
#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn own_work_goes_on_while_writes_are_slow() {
    for (delay, count) in [(500, 4), (3_000, 4), (6_000, 4)] {
        let Some(site) = Site::open(1, (2, 2), 1).await else {
            return;
        };
        sleep(MS(1_500)).await;
        let sick = site.within(&[SICK])[..count].to_vec();
        for instance in &sick {
            site.start(instance, "Busy", "3").await;
        }
        site.rules.add(
            &[SICK],
            &site.all,
            WRITE,
            1.0,
            What::AnsweredLate(MS(delay)),
        );
        let took = site
            .until_completed(&sick, Duration::from_secs(1_500))
            .await;
        println!("{count} instances, writes take {delay} ms: {took:?}");
        site.close().await;
    }
}
