//! Messaging on a container: the outboxes and inboxes of its partitions, run by this process.

mod builder;
mod dead_letter;
mod idle;
mod once;
mod retrying;
#[cfg(test)]
mod tests;
mod unreadable;

pub use builder::{Messaging, MessagingBuilder};
pub use dead_letter::{DeadLetter, DeadLetters};
pub use retrying::{Retrying, RetryingMessage};
