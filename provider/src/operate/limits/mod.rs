//! The limits of activities: their rules, and the permits of this process.

mod leases;
mod lines;
pub(crate) mod permits;
mod report;
pub(crate) mod rules;
