//! What each feature costs in requests and request units: the table of docs/costs.md.
//!
//! `cargo xtask costs` measures on the embedded emulator, whose charges are a model of the service's;
//! with `COSMOS_ENDPOINT` and `COSMOS_KEY` set it measures on that account, and the charges are the
//! service's own. Every row is a difference: with the feature and without it. Requests are the
//! client's, metadata and repetitions included.

mod durable;
mod shared;

use std::time::Duration;

use cdb_client::throughput::Usage;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long the usage must not change until the work counts as finished.
const QUIET: Duration = Duration::from_millis(400);

/// Requests and request units.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    requests: f64,
    charge: f64,
}

impl Cost {
    fn between(before: &Usage, after: &Usage) -> Self {
        let used = after.since(before).total();
        #[expect(clippy::cast_precision_loss, reason = "thousands of requests")]
        let requests = used.requests as f64;
        Self {
            requests,
            charge: used.charge,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            requests: self.requests - other.requests,
            charge: self.charge - other.charge,
        }
    }

    fn per(self, count: u32) -> Self {
        Self {
            requests: self.requests / f64::from(count),
            charge: self.charge / f64::from(count),
        }
    }
}

/// The rows so far.
#[derive(Default)]
struct Table(Vec<(&'static str, Cost)>);

impl Table {
    fn row(&mut self, what: &'static str, cost: Cost) {
        eprintln!("{what}: {cost:.2?}");
        self.0.push((what, cost));
    }
}

/// Measures `work` until no more request is sent.
async fn cost_of<T>(
    usage: impl Fn() -> Usage,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<Cost, Failure> {
    let before = usage();
    work.await?;
    let mut after = usage();
    loop {
        tokio::time::sleep(QUIET).await;
        let now = usage();
        if now == after {
            return Ok(Cost::between(&before, &after));
        }
        after = now;
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut table = Table::default();
    durable::orchestrations(&mut table).await?;
    durable::polled(&mut table).await?;
    durable::idle(&mut table).await?;
    shared::leases_and_messages(&mut table).await?;
    shared::work(&mut table).await?;
    println!("| what | requests | RU |\n|---|--:|--:|");
    for (what, Cost { requests, charge }) in table.0 {
        // Round tiny differences of measurements to zero.
        let [requests, charge] = [requests, charge].map(|figure| figure.max(0.0));
        println!("| {what} | {requests:.1} | {charge:.1} |");
    }
    Ok(())
}
