//! A child process, as seen by the benchmark.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::peers;
use cdb_bench_child::{Job, Load, Order, Outcome, Said, Usage};

/// The word on the command line that makes a process a child.
pub const CHILD: &str = "--child";

/// A runtime or a client in a process of its own. Killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    reached: Vec<(String, f64)>,
}

impl Process {
    /// Starts a child and waits until its provider is open.
    pub async fn start(job: &Job) -> Result<Self, String> {
        let mut child = Command::new(peers::program(job.store.peer)?)
            .arg(CHILD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| error.to_string())?;
        let orders = child.stdin.take().ok_or("a child without input")?;
        let output = child.stdout.take().ok_or("a child without output")?;
        let answers = BufReader::new(output).lines();
        let mut process = Self {
            child,
            orders,
            answers,
            reached: Vec::new(),
        };
        process
            .send(&serde_json::to_string(job).map_err(|error| error.to_string())?)
            .await?;
        match process.next().await? {
            Said::Ready => Ok(process),
            other => Err(format!("a child began with {other:?}")),
        }
    }

    /// Sends an order and waits until it is done.
    pub async fn order(&mut self, order: &Order) -> Result<Said, String> {
        self.send(&serde_json::to_string(order).map_err(|error| error.to_string())?)
            .await?;
        loop {
            match self.next().await? {
                Said::Reached { instance, at } => self.reached.push((instance, at)),
                Said::Failed(error) => return Err(error),
                said => return Ok(said),
            }
        }
    }

    /// Runs a load.
    pub async fn run(&mut self, load: Load) -> Result<Outcome, String> {
        match self.order(&Order::Run(load)).await? {
            Said::Ran(outcome) => Ok(outcome),
            other => Err(format!("expected an outcome, got {other:?}")),
        }
    }

    /// Returns the child's resource usage so far.
    pub async fn usage(&mut self) -> Result<Usage, String> {
        match self.order(&Order::Usage).await? {
            Said::Used(usage) => Ok(usage),
            other => Err(format!("expected the usage, got {other:?}")),
        }
    }

    /// Runs an order that is a call of the client. Returns its start and its duration in
    /// milliseconds.
    pub async fn call(&mut self, order: Order) -> Result<(f64, f64), String> {
        match self.order(&order).await? {
            Said::Called {
                started,
                milliseconds,
            } => Ok((started, milliseconds)),
            other => Err(format!("expected a call, got {other:?}")),
        }
    }

    /// Returns the orchestrations that have not ended with the right result.
    pub async fn verify(&mut self, instances: Vec<String>) -> Result<Vec<String>, String> {
        match self.order(&Order::Verify(instances)).await? {
            Said::Verified { wrong } => Ok(wrong),
            other => Err(format!("expected a verdict, got {other:?}")),
        }
    }

    /// Waits for the next timed point. Returns the orchestration and the time in milliseconds since
    /// 1970.
    pub async fn reached(&mut self, max_wait: Duration) -> Result<(String, f64), String> {
        if !self.reached.is_empty() {
            return Ok(self.reached.remove(0));
        }
        let said = tokio::time::timeout(max_wait, self.next()).await;
        match said.map_err(|_| "nothing was reached in time".to_owned())?? {
            Said::Reached { instance, at } => Ok((instance, at)),
            other => Err(format!("expected a point, got {other:?}")),
        }
    }

    /// Timed points that were reached during an order.
    pub fn reached_meanwhile(&mut self) -> Vec<(String, f64)> {
        std::mem::take(&mut self.reached)
    }

    /// Ends the child.
    pub async fn stop(mut self) -> Result<(), String> {
        self.child.kill().await.map_err(|error| error.to_string())
    }

    async fn send(&mut self, line: &str) -> Result<(), String> {
        let line = format!("{line}\n");
        self.orders
            .write_all(line.as_bytes())
            .await
            .map_err(|error| error.to_string())
    }

    async fn next(&mut self) -> Result<Said, String> {
        loop {
            let line = self.answers.next_line().await;
            let line = line.map_err(|error| error.to_string())?;
            let line = line.ok_or("a child has ended; its reason stands above")?;
            // Some providers log to the stream of the answers.
            if let Ok(said) = serde_json::from_str(&line) {
                return Ok(said);
            }
        }
    }
}
