//! What every measured process does, whichever provider it holds: a runtime, the orchestrations, and the orders of the
//! benchmark. Two programs are made of it, ours and one with the providers to compare with.

mod clock;
mod job;
mod obey;
mod orchestrations;
mod peer;
mod usage;

pub use job::{Job, Load, Order, Outcome, Said, Start, Usage};
pub use obey::run;
pub use peer::{Peer, Store};
