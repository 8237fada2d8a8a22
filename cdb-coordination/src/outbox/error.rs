//! The errors of outbox batches and dead letters.

use cdb_client::Error;
use cdb_model::operation::BatchError;

/// The reason why a batch was not committed, or a dead letter was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// The change and its messages do not fit into one batch. Nothing was written.
    #[error("the change and its messages do not fit into one batch: {0}")]
    Unfit(#[from] BatchError),
    /// The service refused an operation of the change, or cannot be reached. With
    /// [`is_ambiguous`](Error::is_ambiguous) the batch may have been committed: a batch with a
    /// message was looked up without a result.
    #[error(transparent)]
    Failed(#[from] Error),
    /// Other commits kept using the same streams. Nothing was written.
    #[error(
        "other commits to the same partitions were faster at every attempt; commit the batch again"
    )]
    Contended,
    /// The answer to a request cannot be serialized, or the stored answer has another type.
    #[error("the answer to a request cannot be converted: {0}")]
    Answer(#[from] serde_json::Error),
    /// Another process has redriven or discarded the dead letter.
    #[error(
        "the dead letter is gone: another process has redriven or discarded it; list the dead letters again"
    )]
    Gone,
    /// The answer to a redrive or a discard was lost, and nothing shows whether it took place.
    #[error(
        "whether the dead letter was redriven or discarded is unknown, because an answer was lost; list the dead letters again"
    )]
    Undecided,
    /// A newer release has written the container with a schema version that this release does not
    /// know. Nothing was written.
    #[error(
        "the messages of the container have schema version {stored}, written by {written_by}; this release supports up to {supported}: use that release or a newer one"
    )]
    NewerSchema {
        /// The schema version of the container.
        stored: u32,
        /// The newest schema version that this release supports.
        supported: u32,
        /// The crate and release that wrote it.
        written_by: String,
    },
    /// The dead letter is a document that still cannot be read. Nothing was changed.
    #[error(
        "the dead letter cannot be read: {reason}; redrive it with a program that can read it, or discard it"
    )]
    Unreadable {
        /// Why it cannot be read.
        reason: String,
    },
}
