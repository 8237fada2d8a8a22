//! Measures the latency of each strategy: how long a message takes from its arrival until a worker
//! has claimed it, and until its completion is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cdb_work::{
    FlushStrategy as _, Immediate, Interval, IntervalConfig, NewWork, Receipt, WorkConfig,
    WorkCoordinator, WorkEntry, WorkError,
};
use futures::future::join_all;
use tokio::task::JoinSet;

use crate::store::Store;
use crate::{Failure, Options};

const STREAMS: u64 = 1000;

/// The interval at which messages arrive.
const TICK: Duration = Duration::from_millis(10);

/// The intervals of the interval strategy in milliseconds.
const INTERVALS: [u64; 5] = [50, 100, 200, 500, 1000];

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let pace = options.number("pace", 500)?;
    let seconds = options.number("seconds", 10)?;
    let round_trip = Duration::from_millis(options.number("round-trip-ms", 10)?);
    println!(
        "{pace} messages per second, round trip {} ms\n",
        round_trip.as_millis()
    );
    println!(
        "| strategy | claimed after p50 | p99 | completed after p50 | p99 | requests per message |"
    );
    println!("|---|---|---|---|---|---|");
    let load = Load {
        pace,
        count: pace * seconds,
        round_trip,
    };
    load.measure("Immediate", |work| Strategy::Immediate(work.immediate()))
        .await?;
    load.measure("Scoped", |work| Strategy::Scoped(work.clone()))
        .await?;
    for every in INTERVALS {
        let config = IntervalConfig::every(Duration::from_millis(every));
        let strategy = |work: &WorkCoordinator| Strategy::Interval(work.interval(config));
        load.measure(&format!("Interval, {every} ms"), strategy)
            .await?;
    }
    Ok(())
}

/// The messages of one measurement.
struct Load {
    pace: u64,
    count: u64,
    round_trip: Duration,
}

enum Strategy {
    Immediate(Immediate),
    /// One scope per call.
    Scoped(WorkCoordinator),
    Interval(Interval),
}

impl Strategy {
    async fn submit(&self, entries: Vec<WorkEntry>) -> Result<Vec<Receipt>, WorkError> {
        match self {
            Self::Immediate(now) => {
                Ok(join_all(entries.into_iter().map(|entry| now.submit(entry))).await)
            }
            Self::Scoped(work) => {
                let scope = work.scoped();
                let receipts = join_all(entries.into_iter().map(|entry| scope.submit(entry))).await;
                scope.commit().await?;
                Ok(receipts)
            }
            Self::Interval(interval) => {
                Ok(join_all(entries.into_iter().map(|entry| interval.submit(entry))).await)
            }
        }
    }
}

/// The times of each message in microseconds since the start.
struct Times {
    started: Instant,
    arrived: Vec<AtomicU64>,
    claimed: Vec<AtomicU64>,
    completed: Vec<AtomicU64>,
}

impl Times {
    fn new(count: u64) -> Self {
        let zeros = || (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            started: Instant::now(),
            arrived: zeros(),
            claimed: zeros(),
            completed: zeros(),
        }
    }

    fn note(&self, times: &[AtomicU64], number: usize) {
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        times[number].store(micros, Ordering::Relaxed);
    }

    /// The percentiles 50 and 99 of the time since the arrival in milliseconds, without the first
    /// `skipped` messages.
    fn percentiles(&self, times: &[AtomicU64], skipped: usize) -> (u64, u64) {
        let pairs = self.arrived.iter().zip(times).skip(skipped);
        let mut millis: Vec<u64> = pairs
            .map(|(from, to)| to.load(Ordering::Relaxed) - from.load(Ordering::Relaxed))
            .map(|micros| (micros + 500) / 1000)
            .collect();
        millis.sort_unstable();
        let at = |percent: usize| millis[(millis.len() - 1) * percent / 100];
        (at(50), at(99))
    }
}

impl Load {
    /// Runs the load with one coordinator and one strategy, and prints a row of the table.
    async fn measure(
        &self,
        name: &str,
        strategy: impl Fn(&WorkCoordinator) -> Strategy,
    ) -> Result<(), Failure> {
        let store = Store::start(self.round_trip).await?;
        let work = store.open(1, &WorkConfig::default()).await?.remove(0);
        let strategy = Arc::new(strategy(&work));
        let times = Arc::new(Times::new(self.count));
        store.emulator.reset_requests();
        let completing = tokio::spawn(complete(
            work.clone(),
            strategy.clone(),
            times.clone(),
            self.count,
        ));
        self.arrive(&strategy, &times).await?;
        completing.await??;
        let requests = store.emulator.requests().data_requests();
        // Without the first second, in which the streams are created.
        let skipped = usize::try_from(self.pace)?;
        let claimed = times.percentiles(&times.claimed, skipped);
        let completed = times.percentiles(&times.completed, skipped);
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let per_message = requests as f64 / self.count as f64;
        println!(
            "| {name} | {} ms | {} ms | {} ms | {} ms | {per_message:.2} |",
            claimed.0, claimed.1, completed.0, completed.1,
        );
        Ok(work.shutdown().await?)
    }

    /// Stores the messages at the pace, without waiting for the writes.
    async fn arrive(&self, strategy: &Arc<Strategy>, times: &Arc<Times>) -> Result<(), Failure> {
        let mut ticks = tokio::time::interval(TICK);
        let mut writes = JoinSet::new();
        let mut sent = 0;
        while sent < self.count {
            ticks.tick().await;
            let elapsed = u64::try_from(times.started.elapsed().as_millis())?;
            let due = (self.pace * elapsed / 1000).min(self.count);
            let mut entries = Vec::new();
            for number in sent..due {
                times.note(&times.arrived, usize::try_from(number)?);
                let new =
                    NewWork::inbox(format!("stream-{}", number % STREAMS), number.to_string());
                entries.push(new.with_body("measured", "{}").into());
            }
            sent = due.max(sent);
            let strategy = strategy.clone();
            writes.spawn(async move { settle_all(strategy.submit(entries).await?).await });
        }
        while let Some(written) = writes.join_next().await {
            written??;
        }
        Ok(())
    }
}

async fn settle_all(receipts: Vec<Receipt>) -> Result<(), WorkError> {
    for receipt in receipts {
        receipt.settled().await?;
    }
    Ok(())
}

/// Claims all messages and completes each group of claimed messages in a task of its own.
async fn complete(
    work: WorkCoordinator,
    strategy: Arc<Strategy>,
    times: Arc<Times>,
    count: u64,
) -> Result<(), Failure> {
    let mut reports = JoinSet::new();
    let mut claimed = 0;
    while claimed < count {
        let messages = work.claim(1000, Duration::from_secs(10)).await;
        if messages.is_empty() {
            return Err(format!("only {claimed} of {count} messages were claimed").into());
        }
        claimed += u64::try_from(messages.len())?;
        let mut numbers = Vec::new();
        let mut entries = Vec::new();
        for message in messages {
            let number: usize = message.message().message_id.parse()?;
            times.note(&times.claimed, number);
            numbers.push(number);
            entries.push(message.done().into());
        }
        let (strategy, times) = (strategy.clone(), times.clone());
        reports.spawn(async move {
            let receipts = strategy.submit(entries).await?;
            for (number, receipt) in numbers.into_iter().zip(receipts) {
                receipt.settled().await?;
                times.note(&times.completed, number);
            }
            Ok::<(), WorkError>(())
        });
    }
    while let Some(completed) = reports.join_next().await {
        completed??;
    }
    Ok(())
}
