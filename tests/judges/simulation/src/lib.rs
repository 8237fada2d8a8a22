//! Simulation: weeks of a cluster's life in virtual time, repeatable from a seed.
//!
//! The components are real: duroxide's runtime, the provider, the client, the service of the
//! emulator. Replaced are time, randomness, sockets and threads. One process runs one seed on one
//! thread, and the same seed gives the same run. docs/chaos.md says what it covers.

mod args;
mod bounds;
mod caller;
mod cluster;
mod command;
mod counted;
mod excuses;
mod faults;
mod guarded;
mod judge;
mod judges;
mod network;
mod node;
mod operators;
mod profile;
mod random;
mod run;
mod scenario;
mod seeds;
mod shrink;
mod stall;
mod trace;
mod virtual_time;
mod weathers;
mod workload;
mod workloads;

pub use command::command;
pub use scenario::{NodeSettings, Scenario, ScenarioNode};
