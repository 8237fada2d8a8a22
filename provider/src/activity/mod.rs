//! Activities: fetch, renew, acknowledge, release. One document per activity; its lock is a
//! conditional patch of that document.

mod ack;
mod detached;
pub(crate) mod effects;
mod end;
mod fetch;
mod hand_over;
mod locked;
mod renew;

#[cfg(test)]
mod tests;

pub(crate) use ack::abandon;
pub(crate) use detached::ack;
pub(crate) use end::{Committed, Ended, Ending, end};
pub(crate) use fetch::fetch;
pub(crate) use renew::renew;

/// The reason of a lost lock.
const LOST: &str = "the activity was cancelled, or another worker took it";
