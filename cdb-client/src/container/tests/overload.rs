//! A container with 130 % of its throughput in demand: 70 % by users, 60 % by background work. Time
//! is simulated. `cargo test -p cdb-client --lib overload -- --nocapture` prints the figures of
//! docs/operations.md.

use std::time::Duration;

use cdb_emulator::{Emulator, Settings};
use cdb_model::{Document as _, Stored};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};

use super::shop::{Order, Profile, Shop, order, profile};
use crate::Bootstrap;
use crate::container::ContainerClient;
use crate::throughput::BackgroundConfig;
use crate::transport::SimulatedTime;
use crate::{CosmosClient, MasterKey};

/// RU/s of the container.
const THROUGHPUT: u32 = 400;
/// Users read 1 RU per request.
const READS: u32 = 280;
/// Background workers write at least 5 RU per request.
const WRITERS: u64 = 8;
const WRITES: u32 = 48;
/// The latency of a request when nothing else runs; see `SimulatedTime`.
const UNLOADED: Duration = Duration::from_millis(1);

/// What both kinds of work got.
#[derive(Debug)]
struct Measured {
    /// The latency that 1 % of the reads exceed.
    p99: Duration,
    writes: usize,
}

struct Load {
    users: ContainerClient<Shop>,
    background: ContainerClient<Shop>,
    emulator: Emulator,
}

impl Load {
    async fn start(settings: Settings, background: BackgroundConfig) -> Self {
        let time = SimulatedTime::new();
        let settings = settings.throughput(THROUGHPUT).clock(time.clock());
        let emulator = time.in_real_time(settings.start()).await.unwrap();
        let client = CosmosClient::builder(emulator.endpoint())
            .credential(MasterKey::new(emulator.key()).unwrap())
            .transport(time.clone())
            .clock_of(&time)
            .background(background)
            .build()
            .unwrap();
        let database = client.database("db");
        let users: ContainerClient<Shop> = database
            .bootstrap("c", Bootstrap::CreateIfMissing)
            .await
            .unwrap();
        users.run(profile().create()).await.unwrap();
        Self {
            background: users.in_background(),
            users,
            emulator,
        }
    }

    async fn measure(self, case: &str, seconds: u32) -> Measured {
        let before = self.users.usage().total().throttled;
        let start = Instant::now() + Duration::from_secs(1);
        let end = start + Duration::from_secs(seconds.into());
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write(self.background.clone(), writer, start, end));
        }
        let mut reads = JoinSet::new();
        for number in 0..READS * seconds {
            // Users do not wait for the answers of others.
            sleep_until(start + Duration::from_secs(1) * number / READS).await;
            reads.spawn(read(self.users.clone()));
        }
        let mut latencies = reads.join_all().await;
        latencies.sort();
        let written: Vec<Duration> = writers.join_all().await.into_iter().flatten().collect();
        let measured = Measured {
            p99: latencies[latencies.len() * 99 / 100],
            writes: written.len(),
        };
        let throttled = self.users.usage().total().throttled - before;
        let (median, longest) = (latencies[latencies.len() / 2], written.iter().max());
        println!(
            "{case}: {measured:?}, median {median:?}, longest write {longest:?}, {throttled} answers 429"
        );
        self.emulator.stop().await;
        measured
    }
}

/// Returns the latency of a read, which succeeds.
async fn read(users: ContainerClient<Shop>) -> Duration {
    let begun = Instant::now();
    let found: Option<Stored<Profile>> = users.read(&profile().key()).await.unwrap();
    assert!(found.is_some());
    begun.elapsed()
}

/// Writes at its rate, or as fast as it may. Returns the latencies.
async fn write(
    container: ContainerClient<Shop>,
    writer: u64,
    start: Instant,
    end: Instant,
) -> Vec<Duration> {
    sleep_until(start).await;
    let mut pace = interval(Duration::from_secs(WRITERS) / WRITES);
    let mut latencies = Vec::new();
    while Instant::now() < end {
        pace.tick().await;
        let begun = Instant::now();
        let order = Order {
            view_count: 7,
            ..order(writer)
        };
        container.run(order.upsert()).await.unwrap();
        latencies.push(begun.elapsed());
    }
    latencies
}

#[tokio::test(start_paused = true)]
async fn reads_of_users_keep_their_latency_in_an_overload_by_background_work() {
    let load = Load::start(Emulator::builder(), BackgroundConfig::default()).await;
    let governed = load.measure("governor", 45).await;
    assert!(governed.p99 <= UNLOADED * 2, "{governed:?}");
    // 10 % of the throughput are left below the share of 80 %.
    assert!(governed.writes >= 300, "{governed:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_background_handle_the_overload_delays_users() {
    let load = Load::start(Emulator::builder(), BackgroundConfig::default()).await;
    let load = Load {
        background: load.users.clone(),
        ..load
    };
    let ungoverned = load.measure("no background handle", 6).await;
    assert!(ungoverned.p99 > UNLOADED * 10, "{ungoverned:?}");
}

#[tokio::test(start_paused = true)]
async fn priorities_throttle_background_work_alone() {
    let settings = Emulator::builder().priority_based_execution(true);
    let load = Load::start(settings, BackgroundConfig::default()).await;
    let governed = load.measure("governor and priorities", 20).await;
    assert_eq!(governed.p99, UNLOADED, "{governed:?}");
    assert!(governed.writes >= 130, "{governed:?}");
}
