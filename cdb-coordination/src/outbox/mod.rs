//! The outbox: messages that are committed with the change they tell of, and delivered afterwards.
//!
//! `dispatch` is the machinery alone and serves any kind of message (the provider's intents too); the rest is the outbox
//! of [`MessageDocument`](crate::MessageDocument) documents. Nothing here decides what is done with a message: that is the inbox.

mod batch;
mod commit;
mod dead_letter;
mod dispatch;
mod error;
mod relay;
mod retry;
mod route;
mod streams;
mod unreadable;

pub use batch::OutboxBatch;
pub(crate) use commit::commit;
pub use dead_letter::{DeadLetter, DeadLetters};
pub use dispatch::{Dispatcher, Handover, Relay, reconcile};
pub use error::OutboxError;
pub use retry::{Attempt, Jitter, RetryPolicy, Undelivered};
pub(crate) use retry::{Tries, shortened};
pub(crate) use route::Route;
#[cfg(test)]
pub(crate) use route::arriving;
pub(crate) use streams::{Sealed, Streams, Terms};
