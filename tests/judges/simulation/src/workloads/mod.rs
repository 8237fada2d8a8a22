//! The workloads.

pub(crate) mod bank;
pub(crate) mod blocked;
pub(crate) mod conserved;
pub(crate) mod deletions;
pub(crate) mod equal;
pub(crate) mod limited;
pub(crate) mod paused;
pub(crate) mod streams;
