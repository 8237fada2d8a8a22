//! The instances that this process knows: their messages, their cached state, and their running
//! turns.

mod cache;
mod known;
mod message;
mod queue;
mod rejected_commit;
mod turn;
mod turn_result;
mod version;

pub(crate) use cache::{CachedInstance, History};
pub(crate) use known::{Attempt, Instances, Presence, Readiness};
pub(crate) use message::{Content, MAX_MESSAGES, Message, in_order};
pub(crate) use queue::InstanceQueue;
pub(crate) use rejected_commit::RejectedCommit;
pub(crate) use turn::Turn;
pub(crate) use turn_result::TurnResult;
pub(crate) use version::{pack_version, supports};
