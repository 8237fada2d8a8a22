//! The protocol of limits, as pure state machines: no clock, no I/O, no tasks. Written to move into the provider.
//!
//! **What is left out, and the figure that decided.** See the section "Left out" of `tests/limits/README.md`.

mod document;
mod holder;
mod lease;
mod order;
mod patches;
mod rank;
mod rule;
mod runtime;
mod slots;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use document::{Condition, Field, Line, Patch};
pub(crate) use holder::{Answer, Holder, Request, Want};
pub(crate) use lease::{LeaseAnswer, LeaseDocument, LeaseRequest};
pub(crate) use order::{Origin, Waiting, acquisition_order};
pub(crate) use rank::{Priority, Rank, Turns};
pub(crate) use rule::Rule;
pub(crate) use runtime::{Message, Reply, Runtime};

/// The time since the epoch, by the service's clock.
pub(crate) type Time = Duration;

/// The name of a limited key, `tenant=ada`.
pub(crate) type Key = Arc<str>;

/// The name of a process. A fenced process gets a new one.
pub(crate) type RuntimeId = Arc<str>;

/// The number of an item.
pub(crate) type ItemId = u64;
