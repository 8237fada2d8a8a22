//! Management: lists, metrics, deletion and pruning.

mod chunks;
pub(crate) mod dead_letters;
pub(crate) mod delete;
mod ended_children;
pub(crate) mod executions;
pub(crate) mod instances;
pub(crate) mod metrics;
pub(crate) mod prune;
pub(crate) mod purge;
mod removal;
mod row;
pub(crate) mod search;
mod withdraw;
