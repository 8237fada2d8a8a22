//! Messages in the partitions of a container, sent and received by this process.
//!
//! Delivered messages are received once each, in the order in which their sender committed them. One batch
//! contains the effect of a message, the record of its receipt, its deletion, and the messages that the handler
//! sends. An early message waits in its document. The record detects a message that arrives again.

mod claim;
mod config;
mod hints;
mod inner;
mod outcome;
mod partition;
mod receive;
mod received;
mod relay;
mod schema;
mod tasks;

pub use config::MessagingConfig;
pub(crate) use hints::Hints;
pub(crate) use inner::Inner;
pub(crate) use received::Arrival;
pub use received::{Handled, Received};
pub(crate) use schema::agree_on_schema;
