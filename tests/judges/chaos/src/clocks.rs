//! Measures timers on machines with wrong clocks.

use std::time::{Duration, Instant};

use crate::mix::MIXES;
use crate::runtime::keep_trying;
use crate::site::{Actors, Site};

/// Offsets of the machines' clocks in milliseconds.
const AHEAD: [i64; 3] = [30_000, -30_000, 30_000];
/// The number of orchestrations, each with three timers of 0.1 s.
const TIMERS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(1800);

/// Returns the shortest and the longest time of an orchestration with timers of 0.3 s in all, on
/// machines whose clocks are half a minute ahead and behind.
///
/// # Errors
/// When a process cannot be started, or an orchestration does not end.
pub async fn timers(actors: &Actors) -> Result<(Duration, Duration), String> {
    let (site, _store, mut workers) = Site::open(actors, &MIXES[0].store_settings(0), None).await?;
    for (worker, ahead) in workers.iter_mut().zip(AHEAD) {
        worker.go_by_clock(ahead).await?;
    }
    let client = &site.client;
    let one = async |number: usize| {
        let instance = format!("timer-{number}");
        let began = Instant::now();
        keep_trying(|| client.start_orchestration(&instance, "Timer", "")).await?;
        let ended = client.wait_for_orchestration(&instance, PATIENCE).await;
        let took = began.elapsed();
        ended
            .map(|_| took)
            .map_err(|error| format!("{instance}: {error}"))
    };
    let all = futures::future::join_all((0..TIMERS).map(one)).await;
    let all = all.into_iter().collect::<Result<Vec<_>, String>>()?;
    let shortest = all.iter().min().copied().unwrap_or_default();
    Ok((shortest, all.into_iter().max().unwrap_or_default()))
}
