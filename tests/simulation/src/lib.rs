//! Simulation: weeks of a cluster's life in virtual time, repeatable from a seed.
//!
//! The components are real: duroxide's runtime, the provider, the client, the service of the
//! emulator. Replaced are time, randomness, sockets and threads. One process runs one seed on one
//! thread, and the same seed gives the same run. docs/simulation.md says what it covers.

mod args;
mod cluster;
mod command;
mod faults;
mod network;
mod node;
mod orchestrations;
mod random;
mod run;
mod seeds;
mod shrink;
mod streams;
mod trace;
mod virtual_time;
mod workload;

pub use command::command;
pub use run::{Outcome, RunConfig, run};
pub use workload::Workload;
