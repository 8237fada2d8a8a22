//! The key-value store of an instance.
//!
//! A running execution writes deltas; when it ends they are merged into the store. A turn starts from the store alone,
//! because replay produces the execution's own changes again (provider guide, "KV Store"); clients see both.

mod changes;
mod read;
mod state;
mod write;

pub(crate) use changes::KvChanges;
pub(crate) use read::{read_all, read_value};
pub(crate) use state::{KvRows, KvState};
pub(crate) use write::KvUpdate;
