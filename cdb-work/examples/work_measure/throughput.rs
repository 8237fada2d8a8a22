//! Measures how many messages 1, 2, 4 and 8 members complete per second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_work::{
    FlushStrategy as _, NewWork, RunConfig, WorkConfig, WorkContext, WorkCoordinator, WorkHandlers,
};
use tokio::sync::Semaphore;

use crate::store::Store;
use crate::{Failure, Options};

const STREAMS: u64 = 1000;

/// How many messages one scope stores.
const CHUNK: u64 = 5000;

struct Load {
    count: u32,
    handler: Duration,
    concurrency: usize,
    round_trip: Duration,
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let load = Load {
        count: u32::try_from(options.number("messages", 20_000)?)?,
        handler: Duration::from_millis(options.number("handler-ms", 50)?),
        concurrency: usize::try_from(options.number("concurrency", 32)?)?,
        round_trip: Duration::from_millis(options.number("round-trip-ms", 10)?),
    };
    println!(
        "{} messages in {STREAMS} streams, handlers of {} ms, {} at a time per member, round trip {} ms\n",
        load.count,
        load.handler.as_millis(),
        load.concurrency,
        load.round_trip.as_millis()
    );
    println!("| members | messages/s | per member | requests per message |");
    println!("|---|---|---|---|");
    for members in [1, 2, 4, 8] {
        load.measure(members).await?;
    }
    Ok(())
}

impl Load {
    async fn measure(&self, members: u32) -> Result<(), Failure> {
        let store = Store::start(self.round_trip).await?;
        let works = store.open(members, &WorkConfig::default()).await?;
        self.store_all(&works[0]).await?;
        store.emulator.reset_requests();
        let completed = Arc::new(Semaphore::new(0));
        let started = Instant::now();
        let config = RunConfig::default().with_concurrency(self.concurrency);
        let runs: Vec<_> = works
            .iter()
            .map(|work| work.run(config, self.handlers(&completed)))
            .collect();
        completed.acquire_many(self.count).await?.forget();
        let rate = f64::from(self.count) / started.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let requests = store.emulator.requests().data_requests() as f64;
        println!(
            "| {members} | {rate:.0} | {:.0} | {:.3} |",
            rate / f64::from(members),
            requests / f64::from(self.count)
        );
        for run in runs {
            run.stop().await?;
        }
        for work in works {
            work.shutdown().await?;
        }
        Ok(())
    }

    async fn store_all(&self, work: &WorkCoordinator) -> Result<(), Failure> {
        let count = u64::from(self.count);
        for first in (0..count).step_by(usize::try_from(CHUNK)?) {
            let scope = work.scoped();
            for number in first..count.min(first + CHUNK) {
                let stream = format!("stream-{}", number % STREAMS);
                let new = NewWork::inbox(stream, number.to_string());
                // The receipt of a written entry tells nothing that `commit` does not.
                drop(scope.store(new).await);
            }
            scope.commit().await?;
        }
        Ok(())
    }

    /// A handler that takes some time. Each stored completion adds a permit.
    fn handlers(&self, completed: &Arc<Semaphore>) -> WorkHandlers {
        let (time, completed) = (self.handler, completed.clone());
        WorkHandlers::new()
            .otherwise(move |work: WorkContext| async move {
                if !time.is_zero() {
                    tokio::time::sleep(time).await;
                }
                Ok(work.done())
            })
            .on_completion(move |_| completed.add_permits(1))
    }
}
