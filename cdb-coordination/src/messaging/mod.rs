//! Messaging on a container: the outboxes and inboxes of its partitions, run by this process.

pub(crate) mod builder;
pub(crate) mod dead_letter;
mod idle;
mod once;
mod retrying;
#[cfg(test)]
mod tests;
mod unreadable;

pub use crate::endpoint::{Handled, MessagingConfig};
pub use builder::MessagingBuilder;
pub use dead_letter::DeadLetter;
pub use retrying::{Retrying, RetryingMessage};
