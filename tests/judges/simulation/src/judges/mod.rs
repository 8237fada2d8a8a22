//! The judges.

pub(crate) mod handling;
pub(crate) mod invariants;
pub(crate) mod waiting;
