//! Fault injection, to test how programs handle failures.
//!
//! A [`Fault`] names the requests that it affects and its effects; a [`Latency`] delays responses.
//! [`Faults`] matches requests with faults. Every fault has random numbers of its own, so that a
//! seed repeats a run.

mod definition;
mod effect;
mod latency;
mod matcher;
mod random;
mod target;

pub use definition::Fault;
pub use effect::Effect;
pub use latency::Latency;
pub(crate) use matcher::{Faults, Injection, TargetDetail};
pub(crate) use random::Random;
pub(crate) use target::Target;
