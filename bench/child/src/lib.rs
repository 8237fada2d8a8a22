//! The measured process: a runtime, the orchestrations, and the orders of the benchmark. Two
//! programs use it: ours, and one with the other providers.

mod clock;
mod job;
mod obey;
mod orchestrations;
mod peer;
mod usage;

pub use job::{Job, Load, Order, Outcome, Said, Start, Usage};
pub use obey::run;
pub use peer::{Peer, Store};
