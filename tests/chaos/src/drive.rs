//! One run: the processes are started, orchestrations are started and waited for, things are broken meanwhile, and then
//! everything is judged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_emulator::WELL_KNOWN_KEY;
use duroxide::{Client, OrchestrationStatus};
use futures::StreamExt;
use serde::Deserialize;
use tokio::sync::watch;

use crate::check::{Ended, check};
use crate::ledger::Ledger;
use crate::mix::Mix;
use crate::monkey::Monkey;
use crate::process::{Programs, Store, Worker};
use crate::report::Row;
use crate::runtime::{RuntimeArgs, keep_trying, open_to_watch};
use crate::workload::{Job, Kind, MESSAGES, QUEUE};

/// How many runtimes there are.
pub(crate) const RUNTIMES: usize = 3;
/// How many orchestrations are in flight.
const WINDOW: usize = 40;
/// How long an orchestration may take that is finished in well under a second when nothing is broken. A store that allows a
/// tenth of what is needed has all that are in flight wait for each other.
const PATIENCE: Duration = Duration::from_secs(900);
/// How often an orchestration is looked at.
const LOOK: Duration = Duration::from_millis(150);

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
    /// Request units per second that the store allows; no limit without.
    pub throughput: Option<u32>,
    /// Who plays the parts.
    pub programs: Programs,
}

/// Makes a run and judges it.
///
/// # Errors
/// When a process cannot be started: nothing can be said about the run.
pub async fn run(run: &Run) -> Result<Row, String> {
    let faults = run.mix.fault_plan(run.seed);
    let store = Store::start(&run.programs, &faults, run.throughput).await?;
    let args = RuntimeArgs {
        endpoint: store.endpoint(),
        key: WELL_KNOWN_KEY.to_owned(),
    };
    let provider = keep_trying(|| open_to_watch(args.clone())).await;
    let ledger = keep_trying(|| Ledger::open(&args.endpoint, &args.key)).await;
    let mut workers = Vec::new();
    for _ in 0..RUNTIMES {
        workers.push(Worker::start(&run.programs, &args.endpoint).await?);
    }
    store.ask("DELETE", "/_admin/requests", "").await?;
    let monkey = Monkey::new(&run.mix, run.seed, store, workers);
    let (stop, told) = watch::channel(false);
    let raging = tokio::spawn(monkey.rage(told));
    let began = Instant::now();
    let client = Client::new(Arc::new(provider.clone()));
    let ended = play(&client, run, began).await;
    let seconds = began.elapsed().as_secs_f64();
    // It may have given up before; then its result says why.
    let _given_up = stop.send(true);
    let mut monkey = raging.await.map_err(|error| error.to_string())??;
    let used: Used = serde_json::from_str(&monkey.store.ask("GET", "/_admin/requests", "").await?)
        .map_err(|error| error.to_string())?;
    monkey.store.calm_down().await?;
    let verdict = check(&provider, &ledger, &ended).await;
    Ok(Row {
        mix: run.mix.name,
        orchestrations: ended.len(),
        broken: monkey.done,
        seconds,
        charge_per_second: used.charge / seconds,
        verdict,
    })
}

/// What the store counts.
#[derive(Deserialize)]
struct Used {
    charge: f64,
}

async fn play(client: &Client, run: &Run, began: Instant) -> Vec<Ended> {
    let more = |number: &usize| *number < run.instances || began.elapsed() < run.at_least;
    futures::stream::iter((0..).take_while(more))
        .map(|number| play_one(client, Job::new(number)))
        .buffer_unordered(WINDOW)
        .collect()
        .await
}

/// Starts an orchestration, gives it what it waits for, and waits for its end. A call that fails is repeated.
async fn play_one(client: &Client, job: Job) -> Ended {
    let instance = job.instance();
    let (name, input) = (job.orchestration(), job.input());
    keep_trying(|| client.start_orchestration(&instance, &name, input)).await;
    let deadline = Instant::now() + PATIENCE;
    match job.kind {
        Kind::Messages => {
            for number in 0..MESSAGES {
                let data = number.to_string();
                keep_trying(|| client.enqueue_event(&instance, QUEUE, &*data)).await;
            }
        }
        Kind::Cancelled => {
            // A cancellation of what was never started waits for its start.
            let child = format!("{instance}-child");
            let waits = async || {
                let status = client.get_orchestration_status(&child).await;
                matches!(status, Ok(OrchestrationStatus::Running { .. }))
            };
            while !waits().await && Instant::now() < deadline {
                tokio::time::sleep(LOOK).await;
            }
            keep_trying(|| client.cancel_instance(&instance, "enough")).await;
        }
        _ => {}
    }
    while Instant::now() < deadline {
        let status = client.get_orchestration_status(&instance).await;
        if let Ok(
            status @ (OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. }),
        ) = status
        {
            return (job, Some(status));
        }
        tokio::time::sleep(LOOK).await;
    }
    (job, None)
}
