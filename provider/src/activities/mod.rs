//! Activities: fetch, run, end. One document per activity; its lock is a conditional patch of that document.

mod abandon;
mod ack;
mod ask;
mod fetch;
mod known;
mod lock;
mod poison;
mod prelock;
mod queue;
mod reads;
mod release;
mod renew;
mod running;
mod scope;

pub(crate) use abandon::abandon;
pub(crate) use ack::ack;
pub(crate) use fetch::fetch;
pub(crate) use prelock::{FreeWorkers, outcome_unknown, prolong};
pub(crate) use queue::ActivityQueue;
pub(crate) use release::{give_back_ahead, give_back_all, give_back_unwanted};
pub(crate) use renew::renew;

/// What became of an activity whose lock is gone.
const LOST: &str = "the activity was cancelled, or another worker took it";
