//! Answers about instances: lists of them, and each in detail.

mod detail;
mod list;
mod message;
mod overview;
mod presence;
mod query;
mod row;
mod span;
mod standstill;
mod tree;
mod wait;
mod waits_for;

pub use detail::{
    InstanceDetail, OutgoingMessages, PastExecution, QueuedActivity, QueuedMessage, SessionOwner,
    StoredValue,
};
pub use list::InstancePage;
pub use message::describe_message;
pub use overview::{EndedCount, Overview, PastCounts, Window};
pub use presence::{Presence, QueuedInstance};
pub use query::InstanceQuery;
pub use row::{ObservedInstance, StoredText};
pub use span::{Span, SpanKind};
pub use tree::ObservedTree;
pub use wait::{Awaited, ObservedHistory, Wait};
pub use waits_for::{WaitKind, WaitsFor};

pub(super) use detail::read as read_detail;
pub(super) use list::{page, page_with_waits};
pub(super) use overview::read as read_overview;
pub(super) use presence::{instance, read as read_presence};
pub(super) use tree::{child_counts, read as read_tree};
pub(super) use wait::{awaited, history};
