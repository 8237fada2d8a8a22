//! The workloads.

pub(crate) mod effects;
