//! How long work stands still when the runtime that does it is killed.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::WELL_KNOWN_KEY;
use cdb_model::Timestamp;
use duroxide::Client;

use crate::drive::RUNTIMES;
use crate::ledger::{Booked, Ledger};
use crate::mix::MIXES;
use crate::process::{Programs, Store, Worker};
use crate::runtime::{RuntimeArgs, keep_trying, open_to_watch};

/// How many orchestrations are at work, more than one runtime has dispatchers.
const AT_WORK: usize = 18;
/// How many bookings each makes, a tenth of a second apart.
const BOOKINGS: usize = 60;
/// When the runtime is killed.
const KILLED_AFTER: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(120);

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// How many orchestrations stood still for longer than a second after the kill.
    pub stood_still: usize,
    /// The longest time from the kill to an orchestration's next booking.
    pub longest: Duration,
}

/// Kills one of three runtimes under a steady load, and watches what goes on without it.
///
/// # Errors
/// When a process cannot be started, or work stands still for good.
pub async fn recovery(programs: &Programs) -> Result<Recovery, String> {
    let store = Store::start(programs, &MIXES[0].fault_plan(0), None).await?;
    let args = RuntimeArgs {
        endpoint: store.endpoint(),
        key: WELL_KNOWN_KEY.to_owned(),
    };
    let provider = keep_trying(|| open_to_watch(args.clone())).await;
    let ledger = keep_trying(|| Ledger::open(&args.endpoint, &args.key)).await;
    let mut workers = Vec::new();
    for _ in 0..RUNTIMES {
        workers.push(Worker::start(programs, &args.endpoint).await?);
    }
    let client = Client::new(Arc::new(provider.clone()));
    let bookings = BOOKINGS.to_string();
    for number in 0..AT_WORK {
        let instance = format!("steady-{number}");
        keep_trying(|| client.start_orchestration(&instance, "Steady", &*bookings)).await;
    }
    tokio::time::sleep(KILLED_AFTER).await;
    let killed_at = provider.container().now();
    workers[0].kill().await?;
    for number in 0..AT_WORK {
        let instance = format!("steady-{number}");
        let ended = client.wait_for_orchestration(&instance, PATIENCE).await;
        ended.map_err(|error| format!("{instance}: {error}"))?;
    }
    let booked = keep_trying(|| ledger.read()).await;
    Ok(judge(&booked, killed_at))
}

fn judge(booked: &Booked, killed_at: Timestamp) -> Recovery {
    let still: Vec<Duration> = booked
        .values()
        .filter_map(|steps| {
            let later = steps.values().map(|entry| entry.at);
            let next = later.filter(|at| *at > killed_at).min()?;
            Some(next.since(killed_at))
        })
        .collect();
    let longest = still.iter().max().copied().unwrap_or_default();
    let stood_still = still.iter().filter(|time| **time > Duration::from_secs(1));
    Recovery {
        stood_still: stood_still.count(),
        longest,
    }
}
