//! Measures order and completion with killed and paused processes, and a store with faults.

use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use cdb_client::ContainerClient;
use cdb_emulator::{Emulator, Fault};
use cdb_model::operation::BulkBatch;
use cdb_model::{Document as _, Query, Timestamp};
use cdb_work::{Partitions, Work, WorkMessage};

use crate::store::Store;
use crate::worker::{KILLER, MAX_ATTEMPTS, Measured, POISON, Tally, Violation};
use crate::{Failure, Options};

/// How long a process is killed or paused: longer than its leases.
const AWAY: Duration = Duration::from_secs(2);
const STILL: Duration = Duration::from_secs(8);

struct Plan {
    streams: u64,
    messages: u64,
    workers: u64,
    kills: u64,
    pauses: u64,
    /// The time between two disturbances.
    every: Duration,
    patience: Duration,
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let plan = Plan {
        streams: options.number("streams", 1000)?,
        messages: options.number("messages", 100)?,
        workers: options.number("workers", 8)?,
        kills: options.number("kills", 12)?,
        pauses: options.number("pauses", 4)?,
        every: Duration::from_secs(options.number("every", 2)?),
        patience: Duration::from_secs(options.number("patience", 1800)?),
    };
    let Store {
        emulator,
        container,
    } = Store::<Measured>::start(Duration::ZERO).await?;
    create_tallies(&container, plan.streams).await?;
    emulator.reset_requests();
    for fault in Fault::in_five_ways(0.05) {
        emulator.inject(fault);
    }
    let started = Instant::now();
    let mut workers = Vec::new();
    for index in 0..plan.workers {
        workers.push(spawn(&emulator, &plan, index)?);
    }
    let mut ended = disturb(&emulator, &plan, &mut workers).await?;
    let expected = plan.streams * plan.messages;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        ended += restart_ended(&emulator, &plan, &mut workers)?;
        let applied = container.query(Query::<Tally>::across_partitions().sum(Tally::COUNT));
        let applied = applied.first().await?.unwrap_or_default();
        eprintln!("{applied} of {expected} after {:?}", started.elapsed());
        let is_finished = applied >= expected && set_aside(&container).await?.len() >= 2;
        if is_finished || started.elapsed() > plan.patience {
            break;
        }
    }
    let elapsed = started.elapsed();
    let requests = emulator.requests();
    emulator.clear_faults();
    for worker in &mut workers {
        worker.kill()?;
        worker.wait()?;
    }
    check_set_aside(&container, ended).await?;
    report(&container, &plan, elapsed, requests.data_requests()).await
}

/// The messages that were set aside: stream and attempts.
async fn set_aside(
    container: &ContainerClient<Measured>,
) -> Result<BTreeMap<String, u32>, Failure> {
    let dead = Query::<WorkMessage>::across_partitions()
        .filter(WorkMessage::DEAD_SINCE.gt(Timestamp::default()));
    let work = container.view::<Work>();
    let found = work.query(dead).all().await?;
    let found = found.into_iter().map(|row| row.document);
    Ok(found
        .map(|message| (message.stream, message.attempts))
        .collect())
}

/// The bad messages, and no others, were set aside after their attempts.
async fn check_set_aside(container: &ContainerClient<Measured>, ended: u32) -> Result<(), Failure> {
    let aside = set_aside(container).await?;
    println!("{ended} processes ended by themselves; set aside, with attempts: {aside:?}");
    let expected = [KILLER, POISON].map(|stream| (stream.to_owned(), MAX_ATTEMPTS));
    if aside == BTreeMap::from(expected) && ended <= MAX_ATTEMPTS {
        Ok(())
    } else {
        Err("other messages than the bad ones were set aside, or too late".into())
    }
}

async fn create_tallies(
    container: &ContainerClient<Measured>,
    streams: u64,
) -> Result<(), Failure> {
    let partitions = Partitions::default();
    let mut bulk = BulkBatch::<Measured>::new();
    for stream in 0..streams {
        bulk.add(Tally::new(partitions, stream).create())?;
    }
    for created in container.execute_bulk(&bulk).await {
        created?;
    }
    Ok(())
}

fn spawn(emulator: &Emulator, plan: &Plan, index: u64) -> Result<Child, Failure> {
    let numbers = [
        ("--index", index),
        ("--workers", plan.workers),
        ("--streams", plan.streams),
        ("--messages", plan.messages),
    ];
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["worker", "--endpoint", &emulator.endpoint()]);
    for (name, number) in numbers {
        command.args([name, &number.to_string()]);
    }
    Ok(command.spawn()?)
}

/// Starts the workers again that a message has ended. Returns how many.
fn restart_ended(emulator: &Emulator, plan: &Plan, workers: &mut [Child]) -> Result<u32, Failure> {
    let mut ended = 0;
    for (index, worker) in (0..).zip(workers) {
        if worker.try_wait()?.is_some() {
            eprintln!("worker {index} was ended by a message");
            *worker = spawn(emulator, plan, index)?;
            ended += 1;
        }
    }
    Ok(ended)
}

/// Kills and pauses one worker after the other. Returns how many were ended by a message.
async fn disturb(emulator: &Emulator, plan: &Plan, workers: &mut [Child]) -> Result<u32, Failure> {
    let mut ended = 0;
    let mut pauses = plan.pauses;
    let count = plan.kills + plan.pauses;
    for number in 0..count {
        tokio::time::sleep(plan.every).await;
        ended += restart_ended(emulator, plan, workers)?;
        let index = number % plan.workers;
        let worker = &mut workers[usize::try_from(index)?];
        let every = count / plan.pauses.max(1);
        if pauses > 0 && number % every.max(1) == every.max(1) / 2 {
            pauses -= 1;
            eprintln!("worker {index} is paused");
            signal("-STOP", worker)?;
            tokio::time::sleep(STILL).await;
            signal("-CONT", worker)?;
        } else {
            eprintln!("worker {index} is killed");
            worker.kill()?;
            worker.wait()?;
            tokio::time::sleep(AWAY).await;
            *worker = spawn(emulator, plan, index)?;
        }
    }
    Ok(ended)
}

fn signal(signal: &str, worker: &Child) -> Result<(), Failure> {
    // The shell's built-in `kill`, because a minimal image has no `kill` program.
    let kill = format!("kill {signal} {}", worker.id());
    let sent = Command::new("sh").args(["-c", &kill]).status()?;
    if sent.success() {
        Ok(())
    } else {
        Err("the worker has ended".into())
    }
}

async fn report(
    container: &ContainerClient<Measured>,
    plan: &Plan,
    elapsed: Duration,
    requests: u64,
) -> Result<(), Failure> {
    let tallies = container
        .query(Query::<Tally>::across_partitions())
        .all()
        .await?;
    let violations = container
        .query(Query::<Violation>::across_partitions())
        .all()
        .await?;
    let lost: u64 = tallies
        .iter()
        .map(|row| plan.messages.saturating_sub(row.document.last))
        .sum();
    let twice: u64 = tallies
        .iter()
        .map(|row| row.document.count.saturating_sub(row.document.last))
        .sum();
    let applied: u64 = tallies.iter().map(|row| row.document.count).sum();
    for violation in violations.iter().take(10) {
        println!("{:?}", violation.document);
    }
    println!(
        "| streams | messages each | processes | kills | pauses | order violations | lost | applied twice | requests per message | time |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let per_message = requests as f64 / applied.max(1) as f64;
    println!(
        "| {} | {} | {} | {} | {} | {} | {lost} | {twice} | {per_message:.2} | {:.0} s |",
        plan.streams,
        plan.messages,
        plan.workers,
        plan.kills,
        plan.pauses,
        violations.len(),
        elapsed.as_secs_f64(),
    );
    if violations.is_empty() && lost == 0 && twice == 0 {
        Ok(())
    } else {
        Err("the guarantee is broken".into())
    }
}
