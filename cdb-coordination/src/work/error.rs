//! Why work could not be stored, reported or claimed.

use std::sync::Arc;

use cdb_model::BatchError;

/// A failure of the work coordinator.
///
/// ```
/// use cdb_coordination::{NewEvent, WorkError};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let events = work.events();
/// events.append("order-7", 0, vec![NewEvent::new("placed", "{}")]).await?;
/// let late = events.append("order-7", 0, vec![NewEvent::new("cancelled", "{}")]).await.unwrap_err();
/// assert!(matches!(late, WorkError::VersionConflict { expected: 0, .. })); // read, and decide anew
/// assert!(!late.is_transient()); // sending it again would be of no use
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// The service refused or could not be reached.
    #[error(transparent)]
    Service(Arc<cdb_client::Error>),
    /// The message, or what is to be written with it, does not fit into a document or a batch.
    #[error("cannot be stored in one batch: {0}")]
    Unfit(Arc<BatchError>),
    /// Another coordinator works on the stream by now, or the claim is an old one. What was reported may have been
    /// written before that; whoever has the stream now goes on from what is stored.
    #[error(
        "the claim on message `{message_id}` of stream `{stream}` is no longer held; leave it to whoever has the stream now"
    )]
    NotOwner {
        /// The stream.
        stream: String,
        /// The message.
        message_id: String,
    },
    /// A document that was to be written with the report could not be, so nothing of the report was.
    #[error("what was to be written with the end of message `{message_id}` was refused")]
    EffectRefused {
        /// The message. It will be handed out again.
        message_id: String,
        /// Why.
        #[source]
        source: Arc<cdb_client::Error>,
    },
    /// The report came after one of the same stream that failed, so it was not written either.
    #[error(
        "an earlier message of stream `{stream}` could not be ended, so message `{message_id}` could not either; both are handed out again"
    )]
    AfterFailure {
        /// The stream.
        stream: String,
        /// The message.
        message_id: String,
    },
    /// The stored state of the stream does not allow the message to end now: the store has kept the order.
    #[error(
        "message `{message_id}` is not the next one of stream `{stream}`, the store has kept the order"
    )]
    OutOfOrder {
        /// The stream.
        stream: String,
        /// The message.
        message_id: String,
    },
    /// Somebody has spoiled the document of the stream. Nothing is written to it before that is mended.
    #[error("the document of stream `{stream}` cannot be read; mend it, and store or report again")]
    Unreadable {
        /// The stream.
        stream: String,
    },
    /// The stream has another version than was expected.
    #[error("stream `{stream}` is not at version {expected}; read what was added and decide anew")]
    VersionConflict {
        /// The stream.
        stream: String,
        /// The version that was expected.
        expected: u64,
    },
    /// The container was set up with another number of virtual partitions.
    #[error(
        "the container has {stored} virtual partitions and this coordinator was given {configured}; configure {stored}"
    )]
    OtherPartitions {
        /// What the container has.
        stored: u16,
        /// What was configured.
        configured: u16,
    },
    /// A set-aside message that is to be redriven or discarded is not set aside.
    #[error("message `{message_id}` is not set aside")]
    NotSetAside {
        /// The message.
        message_id: String,
    },
    /// It was not written before the strategy or the coordinator that held it was gone.
    #[error("was not written before its strategy or coordinator was gone, and is lost")]
    Unflushed,
}

impl WorkError {
    /// The same call may succeed later, unchanged.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Service(error) if error.is_transient() || error.is_ambiguous())
    }
}

impl From<cdb_client::Error> for WorkError {
    fn from(error: cdb_client::Error) -> Self {
        Self::Service(Arc::new(error))
    }
}

impl From<BatchError> for WorkError {
    fn from(error: BatchError) -> Self {
        Self::Unfit(Arc::new(error))
    }
}
