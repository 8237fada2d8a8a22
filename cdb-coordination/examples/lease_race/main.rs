//! Processes compete for the same documents, and half of them are killed. Measures how often each
//! document is leased, whether one is lost, and the cost. Prints a table of the crate's README.
//!
//! `cargo run -p cdb-coordination --example lease_race -- [documents] [processes]`, by default
//! 10,000 and 8.

mod race;
mod worker;

use std::error::Error;
use std::process::Command;
use std::time::Duration;

use race::{Outcome, Race};
use worker::Task;

/// How long the survivors wait for the documents of a killed process.
const LEASE: Duration = Duration::from_secs(15);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Each process is this program.
    if let Some(task) = Task::from_env()? {
        return worker::work(&task).await;
    }
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>());
    let documents = numbers.next().unwrap_or(Ok(10_000))?;
    let processes = usize::try_from(numbers.next().unwrap_or(Ok(8))?)?;
    let program = std::env::current_exe()?;
    let race = Race::start(documents, LEASE).await?;
    println!(
        "{documents} documents, {processes} processes, leases of {LEASE:?}, 20 at a time, 50 ms of work"
    );
    println!();
    println!("{}", Outcome::HEADER);
    for (round, killed) in [(1, 0), (2, 0), (3, processes / 2), (4, 0)] {
        let outcome = race
            .run(round, processes, killed, || Command::new(&program))
            .await?;
        println!("{outcome}");
        outcome.judge(documents)?;
    }
    Ok(())
}
