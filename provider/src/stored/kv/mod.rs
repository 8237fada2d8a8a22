//! The key-value store of an instance.
//!
//! A running execution writes deltas; its end merges them into the store. A turn starts from the
//! store alone, because replay repeats the execution's own changes (provider guide, "KV Store").
//! Clients see both.

mod changes;
mod state;
mod write;

pub(crate) use changes::{EventChanges, Values, value_after};
pub(crate) use state::{KvState, read_all, read_snapshot, read_value};
pub(crate) use write::KvUpdate;
