//! The mailbox of a container: outbox and inbox of its partitions, run by this process.

mod builder;
mod config;
mod inner;
mod tasks;
#[cfg(test)]
mod tests;

pub use builder::{Mailbox, MailboxBuilder};
pub use config::MailboxConfig;
pub(crate) use inner::Inner;
