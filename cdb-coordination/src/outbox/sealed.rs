//! An outbox batch for a caller that commits it inside a batch of its own.

use cdb_client::Error;
use cdb_model::{Batch, Container, ETag, MemberOf, OperationIndex, Stored, Timestamp};

use super::streams::Sealed;
use crate::message::MessageDocument;

/// The operations of an [`OutboxBatch`](crate::OutboxBatch) with the numbers of its messages.
/// Created by [`Messaging::seal`](crate::Messaging::seal).
#[derive(Debug)]
pub struct SealedBatch<C> {
    sealed: Sealed<C>,
    sealed_at: Timestamp,
}

impl<C: Container> SealedBatch<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    pub(crate) fn new(sealed: Sealed<C>, sealed_at: Timestamp) -> Self {
        Self { sealed, sealed_at }
    }

    /// The operations of the change, then those of the messages. All of them belong to one batch.
    pub fn operations(&self) -> &Batch<C> {
        &self.sealed.batch
    }

    /// Returns `true` if the batch failed because another commit used the same streams. Then seal
    /// the outbox batch again. `operation` is the index of the failed operation among
    /// [`operations`](Self::operations).
    pub fn lost_race(&self, operation: usize, error: &Error) -> bool {
        self.sealed.lost_race_at(operation, error)
    }

    pub(crate) fn sent(
        self,
        etag: impl Fn(OperationIndex) -> Option<ETag>,
    ) -> Vec<Stored<MessageDocument<C>>> {
        self.sealed.sent(etag, self.sealed_at)
    }
}
