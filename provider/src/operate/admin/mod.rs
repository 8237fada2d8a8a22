//! Management: lists, deletion and pruning.

mod chunks;
mod condition;
pub(crate) mod delete;
mod ended_children;
pub(crate) mod executions;
mod fence;
mod forced;
pub(crate) mod instances;
pub(crate) mod prune;
mod purge;
mod removal;
mod row;
mod withdraw;

pub use purge::Purge;
