//! What a coordinator has in memory: the queue of entries, the plans of batches, the held partitions.

pub(crate) mod inner;
pub(crate) mod plan;
pub(crate) mod poller;
pub(crate) mod queue;
pub(crate) mod settlement;
pub(crate) mod share;
pub(crate) mod state;
pub(crate) mod unreadable;
