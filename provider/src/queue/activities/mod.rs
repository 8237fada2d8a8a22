//! The activities that this process knows, and their locks: conditional patches of their documents.

mod busy_workers;
mod capability;
mod known;
pub(crate) mod lock;
mod poll;
mod prelock;
mod queue;
mod reads;
mod release;
mod running;

pub(crate) use capability::{ActivityKey, Scope, WorkerCapability};
pub(crate) use known::{Activities, KnownActivity};
pub(crate) use prelock::{FreeWorkers, NextActivity, created, extend_prelocks, outcome_unknown};
pub(crate) use queue::ActivityQueue;
pub(crate) use release::take_over;
pub(crate) use running::{EffectsState, WorkLock};
