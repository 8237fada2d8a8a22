//! Messages between instances: committed by their sender, then delivered at once or by the
//! reconciler.
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
