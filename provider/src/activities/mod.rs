//! Activities: fetch, renew, acknowledge, release. One document per activity; its lock is a
//! conditional patch of that document.

mod abandon;
mod ack;
mod capability;
mod end;
mod fetch;
mod known;
mod lock;
mod poison;
mod poll;
mod prelock;
mod queue;
mod reads;
mod release;
mod renew;
mod running;
mod scope;

#[cfg(test)]
mod tests;

pub(crate) use abandon::abandon;
pub(crate) use ack::ack;
pub(crate) use capability::ActivityKey;
pub(crate) use end::{CommittedEffects, Ended, end};
pub(crate) use fetch::fetch;
pub(crate) use known::Activities;
pub(crate) use prelock::{FreeWorkers, extend_prelocks, outcome_unknown};
pub(crate) use queue::ActivityQueue;
pub(crate) use release::{release_prelocks, release_running, release_unused, take_over};
pub(crate) use renew::renew;
pub(crate) use running::{EffectsState, SharedLock};

/// The reason of a lost lock.
const LOST: &str = "the activity was cancelled, or another worker took it";
