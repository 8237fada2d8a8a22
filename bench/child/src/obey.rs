//! A child process: one provider, its runtime, and its orders. The emulator is in another process,
//! so memory and processor time are the provider's.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use duroxide::Client;
use duroxide::providers::Provider;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::job::{Job, Load, Order, Outcome, Said, Start};
use crate::orchestrations::{DONE, GO, Reached, activities, orchestrations};
use crate::{clock, usage};

/// The time for the commits of a load's last turns.
const LAST_COMMITS: Duration = Duration::from_millis(300);
/// Attempts of a start.
const START_TRIES: u32 = 10;
/// The pause between two attempts.
const BETWEEN_TRIES: Duration = Duration::from_millis(50);
/// Status queries before an orchestration counts as wrong.
const VERIFY_ATTEMPTS: u32 = 20;

/// A child from its first line to the end of its input; `open` makes its provider.
pub async fn run<O, F>(open: O) -> Result<(), String>
where
    O: FnOnce(Job) -> F,
    F: Future<Output = Result<Arc<dyn Provider>, String>>,
{
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let Some(line) = next_line(&mut lines).await? else {
        return Ok(());
    };
    let job: Job = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    let dispatchers = job.dispatchers;
    let provider = open(job).await?;
    let (reports, mut reached) = mpsc::unbounded_channel();
    let _runtime = match dispatchers {
        0 => None,
        dispatchers => {
            let registry = orchestrations(&reports);
            let options = options(dispatchers);
            Some(
                Runtime::start_with_options(provider.clone(), activities(), registry, options)
                    .await,
            )
        }
    };
    let client = Client::new(provider.clone());
    say(&Said::Ready);
    loop {
        tokio::select! {
            line = next_line(&mut lines) => match line? {
                Some(line) => {
                    let order = serde_json::from_str(&line).map_err(|error| error.to_string())?;
                    say(&obey(order, &client, provider.clone(), &mut reached).await);
                }
                None => return Ok(()),
            },
            Some(point) = reached.recv() => say(&Said::Reached { instance: point.instance, at: milliseconds(point.at) }),
        }
    }
}

fn options(dispatchers: u32) -> RuntimeOptions {
    let dispatchers = usize::try_from(dispatchers).unwrap_or(1);
    RuntimeOptions {
        orchestration_concurrency: dispatchers,
        worker_concurrency: dispatchers,
        ..RuntimeOptions::default()
    }
}

async fn next_line(lines: &mut Lines<BufReader<Stdin>>) -> Result<Option<String>, String> {
    lines.next_line().await.map_err(|error| error.to_string())
}

fn say(said: &Said) {
    match serde_json::to_string(said) {
        Ok(line) => println!("{line}"),
        Err(error) => eprintln!("cannot say {said:?}: {error}"),
    }
}

type Points = mpsc::UnboundedReceiver<Reached>;

async fn obey(
    order: Order,
    client: &Client,
    provider: Arc<dyn Provider>,
    points: &mut Points,
) -> Said {
    let begun = clock::now();
    let called = |result: Result<(), String>| match result {
        Ok(()) => Said::Called {
            started: milliseconds(begun),
            milliseconds: begun.elapsed().unwrap_or_default().as_secs_f64() * 1000.0,
        },
        Err(error) => Said::Failed(error),
    };
    match order {
        Order::Run(load) => match run_load(&load, client, points).await {
            Ok(outcome) => Said::Ran(outcome),
            Err(error) => Said::Failed(error),
        },
        Order::Start(start) => called(start_one(client, &start).await),
        Order::Raise(instance) => called(
            client
                .raise_event(instance, GO, "")
                .await
                .map_err(|error| error.to_string()),
        ),
        Order::Verify(instances) => Said::Verified {
            wrong: verify(&Client::new(provider), instances).await,
        },
        Order::Usage => Said::Used(usage::of_this_process()),
    }
}

/// Runs a load: a new orchestration is started whenever one ends.
async fn run_load(load: &Load, client: &Client, points: &mut Points) -> Result<Outcome, String> {
    let begun = Instant::now();
    let time_left = || Duration::from_secs_f64(load.seconds).saturating_sub(begun.elapsed());
    let mut running = Running::default();
    let mut starts = JoinSet::new();
    let mut next = 0;
    loop {
        while next < load.count && running.has_room(load) && starts.len() < load.starters {
            let start = load.start(load.instance(next));
            running
                .in_flight
                .insert(start.instance.clone(), clock::now());
            let client = client.clone();
            starts.spawn(async move { start_one(&client, &start).await });
            next += 1;
        }
        // An orchestration may end before the call that starts it returns.
        let is_done = running.in_flight.is_empty() && starts.is_empty();
        if is_done || time_left().is_zero() {
            break;
        }
        let max_wait = Duration::from_secs_f64(load.max_wait).min(time_left());
        tokio::select! {
            Some(started) = starts.join_next() => started.map_err(|error| error.to_string())??,
            point = timeout(max_wait, points.recv()) => match point {
                Ok(Some(point)) => running.note(&point),
                Ok(None) => return Err("the runtime has ended".to_owned()),
                Err(_) => running.give_up(),
            },
        }
    }
    let mut outcome = running.outcome;
    outcome.seconds = begun.elapsed().as_secs_f64();
    outcome.times.sort_by(f64::total_cmp);
    tokio::time::sleep(LAST_COMMITS).await;
    Ok(outcome)
}

/// A load while it runs.
#[derive(Debug, Default)]
struct Running {
    in_flight: HashMap<String, SystemTime>,
    outcome: Outcome,
}

impl Running {
    fn has_room(&self, load: &Load) -> bool {
        self.in_flight.len() < load.window
    }

    /// Counts an ended orchestration once, even if its last turn runs again. Ignores orchestrations
    /// of other processes.
    fn note(&mut self, point: &Reached) {
        if let Some(started) = self.in_flight.remove(&point.instance) {
            let time = point.at.duration_since(started).unwrap_or_default();
            self.outcome.times.push(time.as_secs_f64() * 1000.0);
        } else {
            say(&Said::Reached {
                instance: point.instance.clone(),
                at: milliseconds(point.at),
            });
        }
    }

    /// The orchestrations in flight will not end in time.
    fn give_up(&mut self) {
        self.outcome.lost += self.in_flight.len();
        self.in_flight.clear();
    }
}

impl Load {
    /// The id of an orchestration of the load.
    pub fn instance(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }

    fn start(&self, instance: String) -> Start {
        Start {
            instance,
            orchestration: self.orchestration.clone(),
            input: self.input.clone(),
        }
    }
}

/// Starts an orchestration, and retries retryable failures. A second stored start has no effect,
/// because the instance exists.
async fn start_one(client: &Client, start: &Start) -> Result<(), String> {
    let mut tries = 1;
    loop {
        let started =
            client.start_orchestration(&start.instance, &start.orchestration, start.input.clone());
        match started.await {
            Err(error) if error.is_retryable() && tries < START_TRIES => tries += 1,
            Err(error) => return Err(error.to_string()),
            Ok(()) => return Ok(()),
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
}

/// Returns the orchestrations that have not ended with the right result. Waits for each, because
/// lost work may still be repaired.
async fn verify(client: &Client, mut instances: Vec<String>) -> Vec<String> {
    for _ in 0..VERIFY_ATTEMPTS {
        let mut wrong = Vec::new();
        for instance in instances {
            let status = client.get_orchestration_status(&instance).await;
            if !matches!(&status, Ok(OrchestrationStatus::Completed { output, .. }) if output == DONE)
            {
                wrong.push((instance, format!("{status:?}")));
            }
        }
        let may_change = |status: &str| !status.contains("Failed {");
        if !wrong.iter().any(|(_, status)| may_change(status)) {
            return wrong
                .into_iter()
                .map(|(instance, status)| format!("{instance}: {status}"))
                .collect();
        }
        instances = wrong.into_iter().map(|(instance, _)| instance).collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    instances
}

fn milliseconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
        * 1000.0
}
