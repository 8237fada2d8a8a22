//! Activities: fetch, run, end. One document per activity; its lock is a conditional patch of that document.

mod abandon;
mod ack;
mod ahead;
mod fetch;
mod poison;
mod release;
mod renew;
mod table;

pub(crate) use abandon::abandon;
pub(crate) use ack::ack;
pub(crate) use ahead::{give_back_unwanted, lock_ahead, lost_sight};
pub(crate) use fetch::{WorkerCandidate, fetch};
pub(crate) use release::{give_back_ahead, give_back_all};
pub(crate) use renew::renew;
pub(crate) use table::WorkTable;

/// What became of an activity whose lock is gone.
const LOST: &str = "the activity was cancelled, or another worker took it";
