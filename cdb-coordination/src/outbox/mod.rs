//! The outbox: messages that are committed with the change they tell of, and delivered afterwards.
//!
//! `dispatch` is the machinery alone and serves any kind of parcel (the provider's intents too); the rest is the outbox
//! of [`Mail`](crate::Mail) documents. Nothing here decides what is done with a message: that is the inbox.

mod carrier;
mod commit;
mod dead_letter;
mod dispatch;
mod draft;
mod error;
mod retry;
mod route;
mod streams;
mod unreadable;

pub(crate) use commit::commit;
pub use dead_letter::{DeadLetter, DeadLetters};
pub use dispatch::{Carrier, Dispatcher, Handover, reconcile};
pub use draft::Draft;
pub use error::OutboxError;
pub use retry::{Attempt, Jitter, RetryPolicy, Undelivered};
pub(crate) use retry::{Tries, shortened};
pub(crate) use route::Route;
#[cfg(test)]
pub(crate) use route::arriving;
pub(crate) use streams::{Sealed, Streams, Terms};
