//! The inbox: messages that have arrived, received once each and in the order in which their sender committed them.
//!
//! The effect of a message, the record that it was received, its removal and the messages that follow from it are one
//! batch. What is early waits as the document that it is; what comes again is recognised by the record.

mod handler;
mod hints;
mod outcome;
mod partition;
mod receive;

pub(crate) use handler::Handlers;
pub use handler::{Failed, Handled, Received};
pub(crate) use hints::Hints;
