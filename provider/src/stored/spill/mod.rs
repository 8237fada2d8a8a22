//! Texts that are too large for a document: their chunks are written before the commit that refers
//! to them, read when needed, and deleted when no document refers to them.
//!
//! A commit stays atomic at any size: its chunks are unreferenced before the commit and complete after
//! it. A sweep deletes the chunks of crashed commits.

mod limits;
mod read;
mod remove;
mod write;

pub(crate) use limits::Limits;
pub(crate) use read::{ReadUnderLock, read};
pub(crate) use remove::{ConsumedChunks, delete_chunks, release_now, sweep};
pub(crate) use write::Spilling;
