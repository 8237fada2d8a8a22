//! Processes handle the changes of a container, and one of them is killed every few seconds. Counts
//! missed, repeated and disordered changes. Prints a table of the crate's README.
//!
//! `cargo run -p cdb-coordination --example change_feed -- [changes] [processes] [changes
//! a second]`, by default 1,000,000, 8 and as many as the emulator takes.

mod handled;
mod worker;

use std::error::Error;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::change_feed::{ChangeFeedState, feed_progress};
use cdb_emulator::Emulator;
use cdb_model::Document as _;
use cdb_model::operation::BulkBatch;

use handled::{Handled, now};
use worker::{Meter, PROCESSOR, Reading, Task};

/// Each site has a partition key of its own. A bulk has one change for each.
const SITES: u64 = 1000;
/// The physical partitions of the container.
const PARTITIONS: u32 = 16;
/// The pause between two kills.
const KILLS: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Each process is this program.
    if let Some(task) = Task::from_env()? {
        return worker::work(&task).await;
    }
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>());
    let rounds = numbers.next().unwrap_or(Ok(1_000_000))?.div_ceil(SITES);
    let processes = usize::try_from(numbers.next().unwrap_or(Ok(8))?)?;
    let pause = numbers.next().transpose()?;
    let pause = pause.map(|rate| Duration::from_millis(1000 * SITES / rate.max(1)));
    let emulator = Emulator::builder().physical_partitions(PARTITIONS);
    let emulator = emulator.start().await?;
    let directory = std::env::temp_dir().join(format!("change-feed-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let task = Task::new(&emulator, &directory);
    let (meters, state) = open(&task).await?;
    let killing = tokio::spawn(kill(task, processes));

    let begun = Instant::now();
    let mut written = Vec::new();
    for round in 0..rounds {
        write(&meters, round).await?;
        written.push(now());
        let due = pause.unwrap_or_default() * u32::try_from(round + 1)?;
        tokio::time::sleep_until((begun + due).into()).await;
    }
    let (writing, mut behind) = (begun.elapsed(), Duration::MAX);
    while !behind.is_zero() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let parts = feed_progress(PROCESSOR, &meters, &state).await?;
        behind = parts
            .iter()
            .map(|part| part.lag)
            .max()
            .unwrap_or(Duration::MAX);
    }
    let elapsed = begun.elapsed();
    killing.abort();
    let kills = killed(&directory)?;
    let handled = Handled::read(&directory)?;
    println!(
        "{} changes, {processes} processes, {PARTITIONS} physical partitions, a kill every {KILLS:?}",
        rounds * SITES
    );
    println!(
        "{} processes killed, written in {writing:.0?}, handled in {elapsed:.0?}",
        kills.saturating_sub(processes)
    );
    println!("{}", handled.judge(SITES, &written));
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

async fn open(
    task: &Task,
) -> Result<(ContainerClient<Meter>, ContainerClient<ChangeFeedState>), Box<dyn Error>> {
    let client = CosmosClient::builder(&task.endpoint);
    let client = client.credential(MasterKey::new(&task.key)?).build()?;
    let database = client.database(worker::DATABASE);
    let meters = database.bootstrap(worker::METERS, Bootstrap::CreateIfMissing);
    let state = database.bootstrap(worker::STATE, Bootstrap::CreateIfMissing);
    Ok((meters.await?, state.await?))
}

/// Writes one change per site.
async fn write(meters: &ContainerClient<Meter>, number: u64) -> Result<(), Box<dyn Error>> {
    let mut bulk = BulkBatch::<Meter>::new();
    for site in 0..SITES {
        bulk.add(
            Reading {
                site: site.to_string(),
                number,
            }
            .create(),
        )?;
    }
    for result in meters.execute_bulk(&bulk).await {
        result?;
    }
    Ok(())
}

/// A process that is killed on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        if let Err(error) = killed {
            eprintln!("a process was not killed: {error}");
        }
    }
}

/// Runs processes, and replaces the oldest one by a new one at every interval.
async fn kill(task: Task, processes: usize) -> Result<(), std::io::Error> {
    let program = std::env::current_exe()?;
    let mut number = 0;
    let mut start = || {
        number += 1;
        let child = task.start(Command::new(&program), number).spawn()?;
        Ok::<_, std::io::Error>(Process(child))
    };
    let mut running = (0..processes)
        .map(|_| start())
        .collect::<Result<Vec<_>, _>>()?;
    loop {
        tokio::time::sleep(KILLS).await;
        drop(running.remove(0));
        running.push(start()?);
    }
}

/// Returns how many processes were started.
fn killed(directory: &Path) -> Result<usize, std::io::Error> {
    Ok(std::fs::read_dir(directory)?.count())
}
