//! Measures how long work stops when its runtime is killed.

use std::time::Duration;

use cdb_model::Timestamp;

use crate::ledger::Booked;
use crate::mix::MIXES;
use crate::runtime::keep_trying;
use crate::site::{Actors, Site};

/// Concurrent orchestrations: more than one runtime has dispatchers.
const AT_WORK: usize = 18;
/// Bookings of each, a tenth of a second apart.
const BOOKINGS: usize = 60;
/// When the runtime is killed.
const KILLED_AFTER: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(1800);

/// The measurement.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// Orchestrations that stopped for longer than a second after the kill.
    pub delayed: usize,
    /// The longest time from the kill to an orchestration's next booking.
    pub longest: Duration,
}

/// Kills one of three runtimes under a steady load, and measures the delay of its work.
///
/// # Errors
/// If a process cannot be started, or work does not continue.
pub async fn recovery(actors: &Actors) -> Result<Recovery, String> {
    let (site, _store, mut workers) = Site::open(actors, &MIXES[0].store_settings(0), None).await?;
    let bookings = BOOKINGS.to_string();
    for number in 0..AT_WORK {
        let instance = format!("steady-{number}");
        let start = || {
            let client = &site.client;
            client.start_orchestration(&instance, "Steady", &*bookings)
        };
        keep_trying(start).await?;
    }
    tokio::time::sleep(KILLED_AFTER).await;
    let killed_at = site.ledger.now();
    workers[0].kill().await?;
    for number in 0..AT_WORK {
        let instance = format!("steady-{number}");
        let ended = site
            .client
            .wait_for_orchestration(&instance, PATIENCE)
            .await;
        ended.map_err(|error| format!("{instance}: {error}"))?;
    }
    let booked = keep_trying(|| site.ledger.read()).await?;
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
    let delayed = still.iter().filter(|time| **time > Duration::from_secs(1));
    Recovery {
        delayed: delayed.count(),
        longest,
    }
}
