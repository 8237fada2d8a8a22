//! Texts that are too large for a document: written before the commit that refers to them, read where they are needed,
//! removed when nothing refers to them any more.
//!
//! A commit stays atomic whatever its size, because nothing knows of its chunks before it takes place, and everything
//! is in place when it does. What a crash leaves between the two is swept.

mod limits;
mod read;
mod remove;
mod write;

pub(crate) use limits::Limits;
pub(crate) use read::read;
pub(crate) use remove::{ConsumedChunks, give_up_now, sweep};
pub(crate) use write::Spilling;
