//! Transactional activities: the effects of an activity are committed by the batch that ends it.
//!
//! The body of an activity stages operations on documents of its instance's partition, and messages
//! to other partitions. The handler sends them in one batch with the end of the activity, under the
//! activity's lock. So an activity may run more than once, and its effects take place once. The
//! runtime's acknowledgement then writes nothing.

mod error;
mod handler;
mod limits;
mod outbox;
mod staged;

pub use error::{ActivityError, EffectsError};
pub(crate) use handler::Handler;
pub use handler::TransactionalActivity;
pub(crate) use outbox::Outgoing;
pub use outbox::WithMessages;
pub use staged::Effects;
