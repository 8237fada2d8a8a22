//! Messaging on a container: the outboxes and inboxes of its partitions, run by this process.

mod builder;
mod config;
mod form;
mod idle;
mod inner;
mod once;
mod retrying;
mod tasks;
#[cfg(test)]
mod tests;

pub use builder::{Messaging, MessagingBuilder};
pub use config::MessagingConfig;
pub(crate) use form::agree_on_form;
pub(crate) use inner::Inner;
pub use retrying::{Retrying, RetryingMessage};
