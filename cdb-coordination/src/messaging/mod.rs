//! The messaging of a container: outbox and inbox of its partitions, run by this process.

mod builder;
mod config;
mod inner;
mod tasks;
#[cfg(test)]
mod tests;

pub use builder::{Messaging, MessagingBuilder};
pub use config::MessagingConfig;
pub(crate) use inner::Inner;
