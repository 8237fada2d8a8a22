//! The inbox: delivered messages, received once each and in the order in which their sender
//! committed them.
//!
//! One batch contains the effect of a message, the record of its receipt, its deletion, and the
//! messages that the handler sends. An early message waits in its document. The record detects a
//! message that arrives again.

mod claim;
mod hints;
mod outcome;
mod partition;
mod receive;
mod received;

pub(crate) use hints::Hints;
pub(crate) use received::Arrival;
pub use received::{Handled, Received};
