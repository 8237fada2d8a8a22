//! A turn of an orchestration until its commit: poll, load, lock, hand out, give back.
//!
//! Ownership of an instance is decided by conditional writes of its document and by nothing else. Everything read
//! before is a hint; everything kept in memory is checked by the ETag when it is acted on.

mod abandon;
mod fetch;
mod hand_out;
mod load;
pub(crate) mod lock;
mod orphans;
mod poll;
pub(crate) mod prelock;
pub(crate) mod release;
pub(crate) mod renew;

pub(crate) use abandon::abandon;
pub(crate) use fetch::fetch;
pub(crate) use prelock::{NewMessage, Prelock, Written};
pub(crate) use release::{give_back_ahead, give_back_all, give_back_unwanted};
