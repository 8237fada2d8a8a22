//! The workloads of the design, section 9.

use cdb_bench_child::Load;

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The name on the command line.
    pub flag: &'static str,
    /// The name in the table.
    pub label: &'static str,
    /// The measurement.
    pub kind: Kind,
}

/// The kinds of measurements.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Orchestrations, several at a time.
    Load(Orchestrations),
    /// Nothing to do.
    Idle,
    /// Orchestrations while requests fail.
    Faults(Orchestrations),
}

/// Orchestrations of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Orchestrations {
    pub name: &'static str,
    pub input: &'static str,
    /// The number of orchestrations.
    pub count: usize,
    /// Orchestrations in flight.
    pub window: usize,
}

const fn load(name: &'static str, input: &'static str, count: usize, window: usize) -> Kind {
    Kind::Load(Orchestrations {
        name,
        input,
        count,
        window,
    })
}

/// All workloads, in the order of the table.
pub const WORKLOADS: [Workload; 10] = [
    Workload {
        flag: "hello",
        label: "hello (1 activity)",
        kind: load("Chain", "1", 40, 10),
    },
    Workload {
        flag: "chain",
        label: "chain of 20 activities",
        kind: load("Chain", "20", 10, 5),
    },
    Workload {
        flag: "fan5",
        label: "fan-out 5",
        kind: load("FanOut", "5", 40, 10),
    },
    Workload {
        flag: "fan50",
        label: "fan-out 50",
        kind: load("FanOut", "50", 10, 5),
    },
    Workload {
        flag: "sub",
        label: "5 sub-orchestrations",
        kind: load("Parent", "5", 20, 5),
    },
    Workload {
        flag: "again",
        label: "20 × continue-as-new",
        kind: load("Again", "20", 10, 5),
    },
    Workload {
        flag: "backlog100",
        label: "hello, 100 waiting",
        kind: load("Chain", "1", 100, 100),
    },
    Workload {
        flag: "backlog300",
        label: "hello, 300 waiting",
        kind: load("Chain", "1", 300, 300),
    },
    Workload {
        flag: "idle",
        label: "idle, per second",
        kind: Kind::Idle,
    },
    Workload {
        flag: "faults",
        label: "5 sub-orchestrations, 5 % faults",
        kind: Kind::Faults(Orchestrations {
            name: "Parent",
            input: "5",
            count: 1_000,
            window: 20,
        }),
    },
];

impl Workload {
    /// Returns the orchestrations. `None` for an idle runtime.
    pub const fn orchestrations(&self) -> Orchestrations {
        match self.kind {
            Kind::Load(load) | Kind::Faults(load) => load,
            Kind::Idle => Orchestrations {
                name: "Chain",
                input: "0",
                count: 0,
                window: 0,
            },
        }
    }
}

impl Orchestrations {
    /// Returns the workload with fewer orchestrations.
    pub fn at_most(self, count: usize) -> Self {
        Self {
            count: self.count.min(count),
            window: self.window.min(count),
            ..self
        }
    }

    /// Converts the workload to an order for a child.
    pub fn to_load(self) -> Load {
        Load {
            orchestration: self.name.to_owned(),
            input: self.input.to_owned(),
            count: self.count,
            window: self.window,
            starters: 1,
            seconds: 3600.0,
            max_wait: 120.0,
            prefix: self.name.to_lowercase(),
        }
    }
}
