//! A turn of an orchestration: candidate, load, lock, commit.
//!
//! Ownership of an instance is decided by conditional writes of its document and by nothing else. Everything read
//! before is a hint; everything kept in memory is checked by the ETag when it is acted on.

mod abandon;
mod advance;
mod ahead;
mod avoided;
mod begin;
mod cancelled;
mod candidate;
mod cargo;
mod claim;
mod commit;
mod load;
mod lock;
mod mail;
mod memory;
mod next;
mod orphans;
mod outgoing;
mod refusal;
mod release;
mod renew;
mod resolve;
mod settle;
mod table;

pub(crate) use abandon::abandon;
pub(crate) use ahead::{Ahead, enqueued, give_back_unwanted};
pub(crate) use candidate::{InstanceCandidate, fetch};
pub(crate) use claim::Wish;
pub(crate) use commit::{TurnResult, commit};
pub(crate) use mail::{Mail, Message};
pub(crate) use memory::Memory;
pub(crate) use release::{give_back_ahead, give_back_all};
pub(crate) use renew::renew;
pub(crate) use table::{Turn, TurnTable};
