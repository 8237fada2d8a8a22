//! What one partition writes to another: messages between instances, and activities and cancellations
//! that did not fit into their commit. The sender commits an intent (the outbox), which is then delivered at
//! once or by the reconciler. `enqueue` takes the work of clients, which has no intent.
//!
//! An intent is delivered when every target document exists or has existed. A second delivery
//! conflicts with the documents or traces of the first, and changes nothing.

mod activities;
mod deadline;
mod deliver;
mod documents;
pub(crate) mod enqueue;
mod find;
mod messages;
mod relay;
mod starts;

pub(crate) use deliver::{deliver_all, deliver_before_deletion};
pub(crate) use documents::Documents;
pub(crate) use starts::{is_start_sent, queued_starts, starts_child_of};
