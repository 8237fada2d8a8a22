//! The outbox: messages that are committed together with a change and delivered afterwards.
//!
//! `dispatch` serves any kind of message, also the provider's intents. The other modules implement
//! the outbox of [`MessageDocument`](crate::MessageDocument). The inbox handles delivered messages.

mod batch;
mod commit;
mod dead_letter;
mod dispatch;
mod error;
mod receivers;
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
pub use receivers::Receiver;
pub(crate) use receivers::Receivers;
pub use retry::{Attempt, Jitter, RetryPolicy, Undelivered};
pub(crate) use retry::{Tries, shortened};
pub(crate) use route::Route;
#[cfg(test)]
pub(crate) use route::arriving;
pub use streams::PreparedBatch;
pub(crate) use streams::{Streams, Terms};
