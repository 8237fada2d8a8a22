//! Measures the price of the lease time: requests of idle partitions, and the time after a crash
//! until another member claims the messages.

use std::time::{Duration, Instant};

use cdb_work::{NewWork, WorkConfig};
use futures::future::try_join_all;

use crate::store::Store;
use crate::{Failure, Options};

/// The measured lease times in seconds.
const LEASES: [u64; 4] = [5, 15, 30, 60];

/// The crashes of each lease time, at different times since the last renewal.
const ROUNDS: u32 = 4;

/// The result of one crash.
struct Crash {
    /// The requests per second of the idle member before the crash.
    idle: f64,
    /// The time until another member has claimed a message.
    takeover: Duration,
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let round_trip = Duration::from_millis(options.number("round-trip-ms", 10)?);
    println!("| lease | idle: requests/s | shortest take-over | longest take-over |");
    println!("|---|---|---|---|");
    // The members are idle most of the time, so the measurements do not disturb each other.
    let leases = LEASES.map(|seconds| async move {
        let lease = Duration::from_secs(seconds);
        let rounds = (0..ROUNDS).map(|round| crash(lease, round, round_trip));
        Ok::<_, Failure>((seconds, try_join_all(rounds).await?))
    });
    for (seconds, crashes) in try_join_all(leases).await? {
        let idle: f64 = crashes.iter().map(|crash| crash.idle).sum();
        let times = crashes.iter().map(|crash| crash.takeover.as_secs_f64());
        println!(
            "| {seconds} s | {:.1} | {:.1} s | {:.1} s |",
            idle / f64::from(ROUNDS),
            times.clone().fold(f64::INFINITY, f64::min),
            times.fold(0.0, f64::max),
        );
    }
    Ok(())
}

/// Drops a coordinator that holds all partitions and has claimed a message. Measures until another
/// one claims that message.
async fn crash(lease: Duration, round: u32, round_trip: Duration) -> Result<Crash, Failure> {
    let store = Store::start(round_trip).await?;
    let config = WorkConfig::default().with_lease(lease);
    let first = store.open(1, &config).await?.remove(0);
    store.emulator.reset_requests();
    let idle_for = lease + lease * round / ROUNDS;
    let none = first.claim(1, idle_for).await;
    let requests = store.emulator.requests().data_requests();
    first
        .immediate()
        .store(NewWork::inbox("order-7", "paid-1"))
        .await?;
    let claimed = first.claim(1, Duration::from_secs(10)).await;
    assert!(none.is_empty() && claimed.len() == 1, "one message");
    // As after a crash: neither the message nor the lease is given back.
    claimed.into_iter().for_each(std::mem::forget);
    drop(first);
    let crashed = Instant::now();
    let second = store.open(1, &config).await?.remove(0);
    let taken = second.claim(1, lease * 3).await;
    let takeover = crashed.elapsed();
    assert_eq!(taken.len(), 1, "the message is claimed again");
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let idle = requests as f64 / idle_for.as_secs_f64();
    Ok(Crash { idle, takeover })
}
