//! The subcommands, a file or folder each; those about documents and those about messages share a folder.

pub(crate) mod change_feed;
pub(crate) mod completions;
mod confirm;
#[cfg(feature = "dashboard")]
pub(crate) mod dashboard;
pub(crate) mod doctor;
pub(crate) mod documents;
pub(crate) mod instances;
pub(crate) mod limits;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod members;
pub(crate) mod messages;
pub(crate) mod model;
pub(crate) mod policy;
pub(crate) mod queues;
