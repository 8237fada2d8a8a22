//! What passes between the benchmark and its child processes: one JSON value per line.

use serde::{Deserialize, Serialize};

use crate::peer::Store;

/// The first line that a child reads: what it is to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The provider and its data.
    pub store: Store,
    /// Dispatchers of orchestrations, and as many of activities; none for a client without a runtime.
    pub dispatchers: u32,
}

/// A later line: what it is to do. The end of its input ends the child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Run a load and time it.
    Run(Load),
    /// Start an orchestration.
    Start(Start),
    /// Raise the event that the orchestration waits for.
    Raise(String),
    /// Look whether these orchestrations have ended as they should.
    Verify(Vec<String>),
    /// Say what the process has used.
    Usage,
}

/// An orchestration to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    pub instance: String,
    pub orchestration: String,
    pub input: String,
}

/// Orchestrations of one kind, some of them at a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// The orchestration's name.
    pub orchestration: String,
    pub input: String,
    /// How many are run, unless the time is over before.
    pub count: usize,
    /// How many at a time.
    pub window: usize,
    /// How many are being started at a time.
    pub starters: usize,
    /// Stops after this many seconds.
    pub seconds: f64,
    /// Gives up those in flight when none has ended for this many seconds.
    pub patience: f64,
    /// Their ids begin with it.
    pub prefix: String,
}

/// What a child says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Said {
    /// The provider is open and the runtime runs.
    Ready,
    /// A load has ended.
    Ran(Outcome),
    /// An order was carried out; the call returned after this many milliseconds.
    Called { started: f64, milliseconds: f64 },
    /// An orchestration has reached a point, at this time in milliseconds since 1970.
    Reached { instance: String, at: f64 },
    /// How many orchestrations have not ended as they should.
    Verified { wrong: Vec<String> },
    /// What the process has used so far.
    Used(Usage),
    /// The order cannot be carried out.
    Failed(String),
}

/// What came of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// From start to last statement in milliseconds, shortest first.
    pub times: Vec<f64>,
    /// From the first start to the last end, in seconds.
    pub seconds: f64,
    /// Those that were given up.
    pub lost: usize,
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in milliseconds.
    pub cpu: f64,
    /// Resident memory now, in MB.
    pub memory: f64,
    /// The most resident memory so far, in MB.
    pub peak: f64,
}
