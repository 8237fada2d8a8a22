//! Faults on demand: for tests of what comes after the happy path.
//!
//! A [`Fault`] says which requests it strikes and what it does to them, [`Latency`] how late an answer comes, and
//! `strike` decides, with a seed of its own per fault, so that a run can be repeated.

mod alarm;
mod definition;
mod latency;
mod plan;
mod strike;

pub(crate) use alarm::Alarm;
pub use definition::{Effect, Fault};
pub use latency::Latency;
pub use plan::FaultPlan;
pub(crate) use strike::{FaultState, Faults, Strike};
