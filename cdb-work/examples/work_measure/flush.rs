//! Measures the cost of the strategies: requests for the same messages at the same rate, counted by
//! the emulator.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_emulator::RequestLog;
use cdb_work::{FlushStrategy, IntervalConfig, NewWork, WorkConfig, WorkCoordinator};
use futures::StreamExt as _;
use futures::stream;

use crate::store::Store;
use crate::{Failure, Options};

const STREAMS: u64 = 1000;

/// The result of a run.
struct Run {
    log: RequestLog,
    elapsed: Duration,
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let pace = options.number("pace", 1000)?;
    let seconds = options.number("seconds", 10)?;
    let every = Duration::from_millis(options.number("every-ms", 500)?);
    let count = pace * seconds;
    let immediate = measure(pace, count, |work| Arc::new(work.immediate())).await?;
    let interval = measure(pace, count, |work| {
        Arc::new(work.interval(IntervalConfig::every(every)))
    })
    .await?;
    println!("| strategy | messages | messages/s reached | requests | requests per message |");
    println!("|---|---|---|---|---|");
    line("Immediate", count, &immediate);
    line(
        &format!("Interval, {} ms", every.as_millis()),
        count,
        &interval,
    );
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let fewer =
        100.0 - 100.0 * interval.log.data_requests() as f64 / immediate.log.data_requests() as f64;
    println!("\nInterval sends {fewer:.1} % fewer requests.");
    Ok(())
}

fn line(name: &str, count: u64, run: &Run) {
    let requests = run.log.data_requests();
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let (reached, each) = (
        count as f64 / run.elapsed.as_secs_f64(),
        requests as f64 / count as f64,
    );
    println!("| {name} | {count} | {reached:.0} | {requests} | {each:.3} |");
}

/// Stores messages at a rate and completes them as they arrive, with one strategy.
async fn measure(
    pace: u64,
    count: u64,
    strategy: impl Fn(&WorkCoordinator) -> Arc<dyn FlushStrategy>,
) -> Result<Run, Failure> {
    let store = Store::start(Duration::ZERO).await?;
    let work = store.open(1, &WorkConfig::default()).await?.remove(0);
    let strategy = strategy(&work);
    store.emulator.reset_requests();
    let started = Instant::now();
    let ending = tokio::spawn(end_all(work.clone(), strategy.clone(), count));
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    let mut sent = 0;
    while sent < count {
        ticks.tick().await;
        let due = (pace * u64::try_from(started.elapsed().as_millis())? / 1000).min(count);
        let messages = (sent..due).map(|number| {
            let new = NewWork::inbox(format!("stream-{}", number % STREAMS), number.to_string());
            strategy.store(new.with_body("measured", "{}"))
        });
        // Messages of one stream are a thousand apart, so they do not overtake each other.
        let receipts: Vec<_> = stream::iter(messages).buffer_unordered(32).collect().await;
        drop(receipts);
        sent = due.max(sent);
    }
    ending.await??;
    strategy.flush().await?;
    Ok(Run {
        elapsed: started.elapsed(),
        log: store.emulator.requests(),
    })
}

async fn end_all(
    work: WorkCoordinator,
    strategy: Arc<dyn FlushStrategy>,
    count: u64,
) -> Result<(), Failure> {
    let mut ended = 0;
    while ended < count {
        let claimed = work.claim(1000, Duration::from_secs(10)).await;
        if claimed.is_empty() {
            return Err(format!("only {ended} of {count} messages were completed").into());
        }
        ended += u64::try_from(claimed.len())?;
        let reports = claimed
            .into_iter()
            .map(|claimed| strategy.report(claimed.done()));
        let receipts: Vec<_> = stream::iter(reports).buffer_unordered(32).collect().await;
        drop(receipts);
    }
    Ok(())
}
