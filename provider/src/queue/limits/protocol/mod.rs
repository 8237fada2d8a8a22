//! The protocol of limits, as pure state machines: no clock, no I/O, no tasks. `tests/judges/limits` is its model, and
//! compiles these files.
//!
//! [`Runtime`] is the entrance: one per process. It owns the lease, one [`Holder`](holder::Holder) per key, and the
//! [`Queue`](order::Queue) of waiting items. A holder knows the document of its key only by
//! [patches] and reads, and never looks at items.
//!
//! **Left out**, with the figure that decided (`cargo run -p cdb-limits-model --release -- table`):
//! - Standing in line before an item is old, or keeps permits: polls bring items to the permits, and 50 runtimes use 0.98
//!   of 50 permits. From 3 s on instead of 10 s, they use 0.69 instead of 0.77 for items of 200 ms.
//! - A second threshold of age for gifts, and a time in line before the first one: 0.5 s and eight hand-overs suffice.
//! - Reads of other runtimes' leases: the query of due items finds ended leases.
//! - A horizon of reserved slots, and slots ahead of need in the future: 8 a second are used without.
//!
//! **Kept**: *line* and *give*. Without them, four items that only one runtime can run wait without end beside a flood
//! in the others; with them, for 12 s.

mod class;
mod decide;
mod document;
pub(crate) mod holder;
mod lease;
mod order;
mod patches;
mod rank;
mod rule;
mod runtime;
mod slots;
mod timers;
mod timing;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use document::Line;
pub(crate) use document::{Condition, Entry, Field, Operation, Patch};
pub(crate) use holder::{Answer, Request};
pub(crate) use lease::{LeaseAnswer, LeaseDocument, LeaseRequest};
pub(crate) use order::{Origin, Waiting, acquisition_order};
pub(crate) use rank::{Priority, Share, Turns};
pub(crate) use rule::Rule;
pub(crate) use runtime::{Message, Reply, Runtime, Usage};

/// The time since the epoch, by the service's clock.
pub(crate) type Time = Duration;

/// The name of a limited key, `tenant=ada`.
pub(crate) type Key = Arc<str>;

/// The name of a process. A fenced process gets a new one.
pub(crate) type RuntimeId = Arc<str>;

/// The number of an item.
pub(crate) type ItemId = u64;
