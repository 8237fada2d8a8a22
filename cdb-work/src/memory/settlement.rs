//! The outcome of an entry, and its receipt.

use cdb_model::Timestamp;
use tokio::sync::oneshot;

use crate::error::WorkError;

/// The outcome of a written entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// The message is stored.
    Stored {
        /// The position in the stream, from 1.
        sequence: u64,
    },
    /// A message with this id was stored before. Nothing was written.
    Duplicate,
    /// The message is completed.
    Done,
    /// The stages are stored.
    Progressed,
    /// The failure is stored, and the message is retried.
    Retrying {
        /// The earliest time of the next attempt.
        due_at: Timestamp,
    },
    /// The message failed too often and is dead; its stream waits for an operator.
    Dead,
}

/// Resolves when an entry is written.
#[derive(Debug)]
pub struct Receipt(pub(crate) oneshot::Receiver<Result<Settlement, WorkError>>);

impl Receipt {
    /// Waits for the outcome of the entry.
    ///
    /// # Errors
    /// The reason why the entry was not written; [`WorkError::Unflushed`] when its strategy or
    /// coordinator was dropped before.
    pub async fn settled(self) -> Result<Settlement, WorkError> {
        self.0.await.unwrap_or(Err(WorkError::Unflushed))
    }
}
