//! The shop in processes that are killed with SIGKILL, one per number of requests. The store
//! runs elsewhere, so only the process is lost.

use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::process::{Account, Process};
use super::trial::{Outcome, Trial, place_orders};

const VARIABLE: &str = "ORDER_PAYMENT_STOCK_TASK";

/// The line that a process prints when it has used up its requests.
const AT_THE_END: &str = "killed here";

/// A poll interval so long that the first process never searches for messages of others.
const NO_POLL: Duration = Duration::from_secs(10);
const EAGER: Duration = Duration::from_millis(50);

/// The task of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    account: Account,
    interval: Duration,
    /// How many requests the process may send; `None` for any number.
    granted: Option<u64>,
}

impl Task {
    /// Reads the task from the environment; `None` in the parent process.
    pub(crate) fn from_env() -> Outcome<Option<Self>> {
        match std::env::var(VARIABLE) {
            Ok(json) => Ok(Some(serde_json::from_str(&json)?)),
            Err(_) => Ok(None),
        }
    }

    fn start(&self, mut program: Command) -> Outcome<ChildProcess> {
        program.env(VARIABLE, serde_json::to_string(self)?);
        let child = program.stdout(Stdio::piped()).spawn()?;
        Ok(ChildProcess(child))
    }
}

/// A child process that is killed on drop.
struct ChildProcess(Child);

impl ChildProcess {
    /// Waits until the process has used up its requests. Blocks.
    fn reached(&mut self) -> impl FnOnce() -> bool + Send + 'static {
        let stdout = self.0.stdout.take();
        move || {
            let lines = stdout.map(|stdout| BufReader::new(stdout).lines());
            let mut lines = lines.into_iter().flatten().map_while(Result::ok);
            lines.any(|line| line.contains(AT_THE_END))
        }
    }
}

impl Drop for ChildProcess {
    /// SIGKILL: the process does not even close its connections.
    fn drop(&mut self) {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        if let Err(error) = killed {
            eprintln!("a process was not killed: {error}");
        }
    }
}

/// Takes every step of the shop until the process is killed.
pub(crate) async fn serve(task: &Task) -> Outcome {
    let process = Process::start(&task.account, task.interval, task.granted)?;
    place_orders(&process);
    process.died().await;
    println!("{AT_THE_END}");
    std::io::stdout().flush()?;
    std::future::pending().await
}

/// The result of killing a process at every step.
#[derive(Debug, Default)]
pub(crate) struct Killed {
    pub(crate) steps: u64,
    pub(crate) kills: u64,
    elapsed: Duration,
}

impl Killed {
    pub(crate) const HEADER: &str =
        "| requests until both orders have ended | processes killed | seconds |\n|---|---|---|";

    /// Kills a process before its first request, and again after every `step` requests, until a
    /// process finishes alone. Another process finishes each case.
    ///
    /// # Errors
    /// When money, stock and orders do not agree in the end.
    pub(crate) async fn at_every(
        every: usize,
        account: impl Fn(u64) -> Account,
        program: impl Fn() -> Command,
    ) -> Outcome<Self> {
        let begun = Instant::now();
        let mut killed = Self::default();
        for granted in (0..).step_by(every) {
            let trial = Trial::new(account(granted)).await?;
            if !died(&trial, granted, &program).await? {
                break;
            }
            killed.kills += 1;
            killed.steps = granted + 1;
        }
        killed.elapsed = begun.elapsed();
        Ok(killed)
    }
}

/// Runs one case. Returns whether the first process used up its requests.
async fn died(trial: &Trial, granted: u64, program: impl Fn() -> Command) -> Outcome<bool> {
    let task = |interval, granted| Task {
        account: trial.account.clone(),
        interval,
        granted,
    };
    let mut first = task(NO_POLL, Some(granted)).start(program())?;
    let reached = tokio::task::spawn_blocking(first.reached());
    let died = tokio::select! {
        reached = reached => reached?,
        settled = trial.settled() => { settled?; false }
    };
    drop(first);
    let _second = task(EAGER, None).start(program())?;
    trial.settled().await?;
    trial
        .check(&format!("killed after {granted} requests"))
        .await?;
    Ok(died)
}

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            steps,
            kills,
            elapsed,
        } = self;
        write!(f, "| {steps} | {kills} | {:.0} |", elapsed.as_secs_f64())
    }
}
