//! One run: orchestrations are started and waited for, things are broken meanwhile, and then everything is judged.

use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;

use crate::check::check;
use crate::mix::Mix;
use crate::monkey::Monkey;
use crate::play::{Play, stragglers};
use crate::report::Row;
use crate::site::{Actors, Site};

/// A run to be made.
#[derive(Clone, Debug)]
pub struct Run {
    /// What happens to it.
    pub mix: Mix,
    /// Decides about every fault and about the order in which things are broken.
    pub seed: u64,
    /// How many orchestrations, without the children that they start.
    pub instances: usize,
    /// Goes on with further orchestrations for this long.
    pub at_least: Duration,
    /// How many orchestrations are in flight.
    pub window: usize,
    /// Request units per second that the store allows; no limit without.
    pub throughput: Option<u32>,
    /// Who plays the parts.
    pub actors: Actors,
}

/// Makes a run and judges it.
///
/// # Errors
/// When a process cannot be started or the store cannot be read: nothing can be said about the run.
pub async fn run(run: &Run) -> Result<Row, String> {
    let faults = run.mix.fault_plan(run.seed);
    let (site, store, workers) = Site::open(&run.actors, &faults, run.throughput).await?;
    store.ask("DELETE", "/_admin/requests", "").await?;
    let monkey = Monkey::new(&run.mix, run.seed, store, workers);
    let (stop, told) = watch::channel(false);
    let raging = tokio::spawn(monkey.rage(told));
    let play = Play::new(&site.client, run);
    let mut ended = play.to_the_end().await;
    // It may have given up before; then its result says why.
    let _given_up = stop.send(true);
    let mut monkey = raging.await.map_err(|error| error.to_string())??;
    let used: Used = serde_json::from_str(&monkey.store.ask("GET", "/_admin/requests", "").await?)
        .map_err(|error| error.to_string())?;
    let charge_per_second = used.charge / play.seconds();
    let pace = Play::pace(&ended);
    monkey.store.calm_down().await?;
    stragglers(&site.client, &mut ended).await;
    Ok(Row {
        mix: run.mix.name,
        provider: run.actors.subject.name,
        seed: run.seed,
        orchestrations: ended.len(),
        broken: monkey.done,
        pace,
        charge_per_second,
        throughput: run.throughput,
        verdict: check(&site, &ended).await?,
    })
}

/// What the store counts.
#[derive(Deserialize)]
struct Used {
    charge: f64,
}
