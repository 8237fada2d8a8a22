//! Operations on items: single ones, batches, and the deletion of a partition key.

pub(super) mod batch;
pub(super) mod item;
pub(super) mod partition_key_delete;
mod patch;
mod write;
