//! The errors of leases.

use cdb_client::Error;
use cdb_model::document::EncodeError;
use cdb_model::operation::{BatchError, OperationError};
use cdb_model::value::IdError;
use cdb_model::{Document, Stored, Timestamp};

/// The reason why a call under a lease failed. Nothing was written, unless the error is a
/// [`Client`](Self::Client) error with [`is_ambiguous`](Error::is_ambiguous).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The document does not exist.
    #[error("{document} `{id}` does not exist")]
    Gone {
        /// The stored name of the document type.
        document: &'static str,
        /// The document's id.
        id: String,
    },
    /// Another holder has the lease.
    #[error("`{id}` is held by `{holder}` until {until}; wait until then, or break the lease")]
    Held {
        /// The document's id.
        id: String,
        /// The holder's name.
        holder: String,
        /// When the lease expires unless it is renewed, in the service's time.
        until: Timestamp,
    },
    /// The guard no longer holds the lease: the lease expired and another holder took it, an
    /// operator broke it, or the guard released it.
    #[error(
        "the lease of `{id}` with token {token} has ended, the document has token {current}; discard the work done under it"
    )]
    Lost {
        /// The document's id.
        id: String,
        /// The fencing token of the guard.
        token: u64,
        /// The fencing token that the document has now.
        current: u64,
    },
    /// The lease is still held, but the write was refused: the condition of the patch does not
    /// hold, or a writer without a lease has changed the document since the guard read it.
    #[error(
        "`{id}` has changed since the guard read it, or does not meet the condition of the patch; the lease is held: call `refresh` and decide again"
    )]
    Changed {
        /// The document's id.
        id: String,
    },
    /// The guard has patched the document and has not read it since. A replacement would undo the
    /// patch, and a deletion changes of other writers.
    #[error("`{id}` was patched under this lease; call `refresh` before you replace or delete it")]
    Unread {
        /// The document's id.
        id: String,
    },
    /// The operation is on another document than the leased one.
    #[error(
        "the guard holds `{id}`, but the operation is on `{found}`; add it to a batch and execute `(patch, batch)`"
    )]
    OtherDocument {
        /// The id of the leased document.
        id: String,
        /// The id of the other document.
        found: String,
    },
    /// The batch has an operation on the leased document.
    #[error("the batch has an operation on the leased `{id}`; put its changes into the patch")]
    LeasedInBatch {
        /// The id of the leased document.
        id: String,
    },
    /// Other writers changed the document at every attempt to lease it.
    #[error("other writers changed `{id}` at every attempt to lease it; try again later")]
    Contended {
        /// The document's id.
        id: String,
    },
    /// The operation cannot be sent, or does not fit into a batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The service cannot be reached, or refused the request for another reason.
    #[error(transparent)]
    Client(#[from] Error),
}

impl LeaseError {
    /// Returns `true` if another holder has the lease.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }

    /// Returns `true` if the guard has lost its lease or the document is gone. Work done under the
    /// lease does not count.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Gone { .. })
    }

    /// Returns `true` if the document does not exist.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    pub(super) fn gone<D: Document>(id: &impl ToString) -> Self {
        Self::Gone {
            document: D::SHAPE.discriminator,
            id: id.to_string(),
        }
    }

    pub(super) fn changed<D>(stored: &Stored<D>) -> Self {
        let id = stored.id.to_string();
        Self::Changed { id }
    }
}

impl From<IdError> for LeaseError {
    fn from(error: IdError) -> Self {
        Self::Batch(error.into())
    }
}

impl From<EncodeError> for LeaseError {
    fn from(error: EncodeError) -> Self {
        Self::Batch(OperationError::from(error).into())
    }
}
