//! Entries and claims: accepted, started, written in batches. A strategy says when.

pub(crate) mod apply;
pub(crate) mod attempt;
pub(crate) mod entry;
pub(crate) mod exchange;
pub(crate) mod interval;
pub(crate) mod rejected_batch;
pub(crate) mod send;
pub(crate) mod strategy;
pub(crate) mod write;
