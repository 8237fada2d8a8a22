//! The limits of activities: their rules, and the permits of this process.

pub(crate) mod permits;
mod report;
pub(crate) mod rules;
mod share;
