//! The errors of the work coordinator.

use std::sync::Arc;
use std::time::Duration;

use cdb_coordination::timing::TimingError;
use cdb_model::operation::BatchError;

/// The reason why work was not stored, reported or claimed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// The service refused the request or cannot be reached.
    #[error(transparent)]
    Service(Arc<cdb_client::Error>),
    /// The physical partition does not answer, while others do.
    #[error("the physical partition of `{partition}` does not answer; wait {backoff:?}")]
    Unanswered {
        /// The virtual partition.
        partition: String,
        /// When the physical partition is tried again.
        backoff: Duration,
    },
    /// The message, or the documents written with it, do not fit into a document or a batch.
    #[error("the entry does not fit into one batch: {0}")]
    Unfit(Arc<BatchError>),
    /// The claim is no longer held: another coordinator holds the partition, or the claim is
    /// outdated. An earlier report may have been written; the holder continues from what is stored.
    #[error(
        "the claim on message `{message_id}` of stream `{stream}` is no longer held; discard the result, the holder of the stream continues"
    )]
    NotOwner {
        /// The stream's name.
        stream: String,
        /// The message id.
        message_id: String,
    },
    /// A document written with the report was refused, so nothing of the report was written.
    #[error(
        "a document written with the report of message `{message_id}` was refused: {source}; the message is claimed again"
    )]
    EffectRefused {
        /// The message id. The message is claimed again.
        message_id: String,
        /// The refusal.
        #[source]
        source: Arc<cdb_client::Error>,
    },
    /// An earlier report of the same stream was refused, so this one was not written either.
    #[error(
        "the report of message `{message_id}` follows a refused report of stream `{stream}`; both messages are claimed again"
    )]
    AfterFailure {
        /// The stream's name.
        stream: String,
        /// The message id.
        message_id: String,
    },
    /// The stored stream has not reached this message: the store has kept the order.
    #[error(
        "message `{message_id}` is not the next one of stream `{stream}`; the store has refused to complete it"
    )]
    OutOfOrder {
        /// The stream's name.
        stream: String,
        /// The message id.
        message_id: String,
    },
    /// The document of the stream cannot be read. Nothing is written to the stream until it is
    /// repaired.
    #[error(
        "the document of stream `{stream}` cannot be read; repair it, then store or report again"
    )]
    Unreadable {
        /// The stream's name.
        stream: String,
    },
    /// The stream has another version than expected.
    #[error("stream `{stream}` is not at version {expected}; read the new events and decide again")]
    VersionConflict {
        /// The stream's name.
        stream: String,
        /// The expected version.
        expected: u64,
    },
    /// Events that a read begins with were deleted.
    #[error(
        "events of stream `{stream}` up to version {up_to} were deleted; read the snapshot, then the events after its version"
    )]
    EventsDeleted {
        /// The stream's name.
        stream: String,
        /// The version of the last deleted event.
        up_to: u64,
    },
    /// The archive has refused events. These and later events of the stream were not deleted.
    #[error(
        "the archive has refused events of stream `{stream}`: {reason}; they were not deleted, call again"
    )]
    Unarchived {
        /// The stream's name.
        stream: String,
        /// The reason of the archive.
        reason: String,
    },
    /// The container was set up with another number of virtual partitions.
    #[error(
        "the container has {stored} virtual partitions and this coordinator was given {configured}; configure {stored}"
    )]
    OtherPartitions {
        /// The number in the container.
        stored: u16,
        /// The configured number.
        configured: u16,
    },
    /// A newer release has written the container with a schema version that this release does not know.
    #[error(
        "the container has schema version {stored}, written by {written_by}; this release supports up to {supported}: use that release or a newer one"
    )]
    NewerSchema {
        /// The schema version of the container.
        stored: u32,
        /// The newest schema version that this release supports.
        supported: u32,
        /// The crate and release that wrote it.
        written_by: String,
    },
    /// A duration of the configuration is too long for another one.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// The message to redrive or discard is not dead.
    #[error("message `{message_id}` is not dead; read those that are with `dead_letters`")]
    NotDead {
        /// The message id.
        message_id: String,
    },
    /// The strategy or coordinator was dropped before the entry was written.
    #[error(
        "the entry was not written, because its strategy or coordinator was dropped; store the message again, or wait until the message of the report is claimed again"
    )]
    Unflushed,
}

impl WorkError {
    /// Returns `true` if the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Service(error) => error.is_transient() || error.is_ambiguous(),
            Self::Unanswered { .. } => true,
            _ => false,
        }
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
