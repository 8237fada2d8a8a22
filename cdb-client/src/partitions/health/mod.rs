//! The health of each physical partition: a circuit breaker per partition, like the partition-level
//! circuit breaker of the official clients.
//!
//! Every request whose physical partition is known reports its end here. The client itself refuses
//! no request. A caller with work in several partitions reads the health and leaves out those that
//! do not answer, so that they delay only their own work.

mod breakers;
mod circuit;
mod endpoints;
#[cfg(test)]
mod fixture;
mod going_on;
mod in_time;
mod signal;
mod stall;
mod unanswered;
mod watch;

pub use self::breakers::PartitionHealth;
pub use self::circuit::Behind;
pub(crate) use self::circuit::Class;
pub(crate) use self::endpoints::RangeEndpoints;
pub(crate) use self::going_on::{GoesOn, goes_on};
pub(crate) use self::stall::{leave_write, refused_since, watch_stall};
pub(crate) use self::watch::Watch;
