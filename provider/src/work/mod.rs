//! Activities: fetch, run, end. One document per activity; its lock is a conditional patch of that document.

mod abandon;
mod ack;
mod fetch;
mod renew;
mod table;

pub(crate) use abandon::abandon;
pub(crate) use ack::ack;
pub(crate) use fetch::{WorkerCandidate, fetch};
pub(crate) use renew::renew;
pub(crate) use table::WorkTable;
