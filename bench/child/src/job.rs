//! The messages between the benchmark and its child processes: one JSON value per line.

use serde::{Deserialize, Serialize};

use crate::peer::Store;

/// The first line for a child: its configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The provider and its data.
    pub store: Store,
    /// Dispatchers of orchestrations, and as many of activities; none for a client without a
    /// runtime.
    pub dispatchers: u32,
    /// Whether the runtimes on the container share its work by membership.
    #[serde(default)]
    pub members: bool,
}

/// A later line: an order. The end of its input ends the child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Run a load and time it.
    Run(Load),
    /// Start an orchestration.
    Start(Start),
    /// Raise the event that the orchestration waits for.
    Raise(String),
    /// Check that these orchestrations have the right result.
    Verify(Vec<String>),
    /// Report the process's resource usage.
    Usage,
}

/// An orchestration to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    pub instance: String,
    pub orchestration: String,
    pub input: String,
}

/// Orchestrations of one kind, several at a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// The orchestration's name.
    pub orchestration: String,
    pub input: String,
    /// The number of orchestrations, unless the time ends first.
    pub count: usize,
    /// Orchestrations in flight.
    pub window: usize,
    /// Concurrent starts.
    pub starters: usize,
    /// Stops after this many seconds.
    pub seconds: f64,
    /// Gives up those in flight when none has ended for this many seconds.
    pub max_wait: f64,
    /// The prefix of their ids.
    pub prefix: String,
}

/// An answer of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Said {
    /// The provider is open and the runtime runs.
    Ready,
    /// A load has ended.
    Ran(Outcome),
    /// An order is done; its call took this many milliseconds.
    Called { started: f64, milliseconds: f64 },
    /// An orchestration has reached a point, at this time in milliseconds since 1970.
    Reached { instance: String, at: f64 },
    /// Orchestrations without the right result.
    Verified { wrong: Vec<String> },
    /// The process's resource usage so far.
    Used(Usage),
    /// The order failed.
    Failed(String),
}

/// The result of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// From start to last statement in milliseconds, shortest first.
    pub times: Vec<f64>,
    /// From the first start to the last end, in seconds.
    pub seconds: f64,
    /// Orchestrations that were given up.
    pub lost: usize,
}

/// The resource usage of a process.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in milliseconds.
    pub cpu: f64,
    /// Resident memory now, in MB.
    pub memory: f64,
    /// The most resident memory so far, in MB.
    pub peak: f64,
}
