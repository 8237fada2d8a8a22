//! Simulation: weeks of a cluster's life in virtual time, repeatable from a seed.
//!
//! The components are real: duroxide's runtime, the provider, the client, the service of the
//! emulator. Replaced are time, randomness, sockets and threads. One process runs one seed on one
//! thread, and the same seed gives the same run. docs/chaos.md says what it covers.

mod args;
mod bank;
mod blocked;
mod bounds;
mod cluster;
mod command;
mod conserved;
mod counted;
mod deletions;
mod equal;
mod excuses;
mod faults;
mod handling;
mod invariants;
mod limited;
mod network;
mod node;
mod operators;
mod orchestrations;
mod pauses;
mod profile;
mod random;
mod run;
mod scenario;
mod seeds;
mod shrink;
mod stall;
mod streams;
mod trace;
mod virtual_time;
mod waiting;
mod weathers;
mod workload;

pub use command::command;
pub use profile::FixedProfile;
pub use run::{Hang, Outcome, RunConfig, run};
pub use scenario::{NodeSettings, Scenario, ScenarioNode};
pub use workload::Workload;
