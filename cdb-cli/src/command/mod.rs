//! The subcommands, one per file.

pub(crate) mod changes;
pub(crate) mod completions;
pub(crate) mod copy;
#[cfg(feature = "dashboard")]
pub(crate) mod dashboard;
pub(crate) mod deadletters;
pub(crate) mod doctor;
pub(crate) mod inbox;
pub(crate) mod instances;
pub(crate) mod limits;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod members;
pub(crate) mod migrate;
pub(crate) mod model;
pub(crate) mod outbox;
pub(crate) mod policy;
pub(crate) mod queues;
mod redrive;
pub(crate) mod work;
