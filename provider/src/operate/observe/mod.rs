//! Answers about the instances, queues, limits and runtimes of a container: what waits, since when, and for what.
//!
//! [`CosmosDBProvider::observe`](crate::CosmosDBProvider::observe) gives them to programs, dashboards and the `cdb`
//! command. Each answer reads what it needs once, so its parts agree; nothing is written. Ages are by the service's
//! clock. As JSON, fields are in camel case, times are UTC texts and spans are milliseconds.

mod error;
mod health;
mod instances;
mod json;
mod keys;
mod limits;
mod members;
mod observer;
mod overdue;
mod queues;
mod running;
mod sample;
mod stuck;
mod unstarted;

pub use error::ObserveError;
pub use health::Health;
pub use instances::{
    Awaited, EndedCount, InstanceDetail, InstancePage, InstanceQuery, ObservedHistory,
    ObservedInstance, ObservedTree, OutgoingMessages, Overview, PastCounts, PastExecution,
    Presence, QueuedActivity, QueuedInstance, QueuedMessage, SessionOwner, Span, SpanKind,
    StoredText, StoredValue, Wait, WaitKind, WaitsFor, Window, describe_message,
};
pub use keys::{Allowance, KeyUse, KeysInUse};
pub use limits::LimitsInUse;
pub use members::{Group, GroupMember};
pub use observer::Observe;
pub use queues::{DueSlot, Queues, Waiting};
pub use running::{BusyRuntime, RunningActivity};
pub use stuck::{Obstacle, StuckActivity, StuckInstance};
pub use unstarted::{StartState, Unstarted};
