//! A discrete-event simulation of runtimes that share documents: virtual time, repeatable from a seed.

mod algorithm;
mod event;
mod failing;
mod items;
mod network;
mod polls;
mod random;
mod scenario;
mod simulation;

pub(crate) use algorithm::{Algorithm, Ended};
pub(crate) use random::Random;
pub(crate) use scenario::{FaultKind, Item, Scenario, millis, secs};
pub(crate) use simulation::run;
