//! The outbox: messages that are committed together with a change and delivered afterwards.
//!
//! `dispatch` serves any kind of message, also the provider's intents. The other modules implement
//! the outbox of [`MessageDocument`](crate::MessageDocument). The inbox handles delivered messages.

pub(crate) mod batch;
mod commit;
mod dispatch;
mod error;
mod receivers;
mod route;
mod streams;

pub(crate) use batch::OutboxBatch;
pub(crate) use commit::commit;
pub use dispatch::{Dispatcher, OutboxTransport, PendingDelivery, reconcile};
pub use error::OutboxError;
pub use receivers::Receiver;
pub(crate) use receivers::Receivers;
pub(crate) use route::{Route, arrival, arriving};
pub use streams::PreparedBatch;
pub(crate) use streams::{Streams, Terms};
