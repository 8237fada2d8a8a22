//! A turn of an orchestration: candidate, load, lock, commit.
//!
//! Ownership of an instance is decided by conditional writes of its document and by nothing else. Everything read
//! before is a hint; everything kept in memory is checked by the ETag when it is acted on.

mod abandon;
mod ack;
mod advance;
mod cancelled;
mod cargo;
mod commit;
mod fetch;
mod hand_out;
mod known;
mod load;
mod lock;
mod mail;
mod memory;
mod orphans;
mod outgoing;
mod poll;
mod prelock;
mod queue;
mod refusal;
mod release;
mod renew;
mod resolve;
mod result;
mod settle;
mod table;
mod version;

pub(crate) use abandon::abandon;
pub(crate) use ack::commit;
pub(crate) use fetch::fetch;
pub(crate) use mail::Message;
pub(crate) use prelock::{Prelock, enqueued};
pub(crate) use queue::InstanceQueue;
pub(crate) use release::{give_back_ahead, give_back_all, give_back_unwanted};
pub(crate) use renew::renew;
pub(crate) use result::TurnResult;
