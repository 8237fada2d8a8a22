//! One run: starts orchestrations and waits for them while failures are injected, then judges the
//! result.

use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;

use crate::check::check;
use crate::mix::Mix;
use crate::monkey::Monkey;
use crate::play::{Play, stragglers};
use crate::report::Row;
use crate::site::{Actors, Site};

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The mix of failures.
    pub mix: Mix,
    /// Decides every fault and the order of failures.
    pub seed: u64,
    /// The number of orchestrations, without children.
    pub instances: usize,
    /// Starts further orchestrations for this long.
    pub at_least: Duration,
    /// Orchestrations in flight.
    pub window: usize,
    /// Runs orchestrations of transactional activities only.
    pub effects: bool,
    /// Request units per second that the store allows. `None` means no limit.
    pub throughput: Option<u32>,
    /// The processes of the run.
    pub actors: Actors,
}

/// Runs and judges.
///
/// # Errors
/// If a process cannot be started or the store cannot be read.
pub async fn run(run: &Run) -> Result<Row, String> {
    let settings = run.mix.store_settings(run.seed);
    let (site, store, workers) = Site::open(&run.actors, &settings, run.throughput).await?;
    store.ask("DELETE", "/_admin/requests", "").await?;
    let monkey = Monkey::new(&run.mix, run.seed, store, workers);
    let (stop, told) = watch::channel(false);
    let injecting = tokio::spawn(monkey.run(told));
    let play = Play::new(&site.client, run);
    let mut ended = play.to_the_end().await;
    // The task may have failed earlier. Its result then has the reason.
    let _given_up = stop.send(true);
    let mut monkey = injecting.await.map_err(|error| error.to_string())??;
    let used: Used = serde_json::from_str(&monkey.store.ask("GET", "/_admin/requests", "").await?)
        .map_err(|error| error.to_string())?;
    let charge_per_second = used.charge / play.seconds();
    let pace = Play::pace(&ended);
    monkey.store.clear_faults().await?;
    stragglers(&site.client, &mut ended).await;
    if let Some(recorder) = &site.recorder {
        if ended.iter().all(|one| one.status.is_some()) {
            recorder.rest();
        }
        recorder.finish().map_err(|error| error.to_string())?;
    }
    Ok(Row {
        mix: run.mix.name,
        provider: run.actors.subject.name,
        seed: run.seed,
        orchestrations: ended.len(),
        broken: monkey.done,
        pace,
        charge_per_second,
        throughput: run.throughput,
        verdict: check(&site.ledger, &site.documents, &ended).await?,
    })
}

/// Returns the store's counters.
#[derive(Deserialize)]
struct Used {
    charge: f64,
}
