//! The errors of a repository.

use cdb_client::Error;
use cdb_model::operation::OperationError;
use cdb_model::query::CriteriaError;
use cdb_model::value::IdError;

/// The reason why an operation of a repository failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepositoryError {
    /// Another document has this id, or the same unique key.
    #[error("`{id}` or one of its unique keys exists; update that document, or choose another key")]
    Exists {
        /// The id.
        id: String,
    },
    /// Another writer has changed the document since it was read, or a condition does not hold.
    #[error(
        "`{id}` was changed since it was read, or does not meet the condition; read it again and repeat the change"
    )]
    Changed {
        /// The id.
        id: String,
    },
    /// The document does not exist.
    #[error("`{id}` does not exist; another writer may have deleted it")]
    Gone {
        /// The id.
        id: String,
    },
    /// The answer to the write was lost, and the stored document does not tell whether it took effect:
    /// another writer has changed or deleted the document since, or it cannot be read.
    #[error(
        "whether `{id}` was written is unknown, because an answer was lost; read it and decide whether to repeat the change: {lost}"
    )]
    Undecided {
        /// The id.
        id: String,
        /// The failure of the last send.
        #[source]
        lost: Error,
    },
    /// The criteria name a field that cannot be searched.
    #[error(transparent)]
    Criteria(#[from] CriteriaError),
    /// The operation cannot be sent.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The service cannot be reached, or refused the request for another reason.
    #[error(transparent)]
    Client(#[from] Error),
}

impl RepositoryError {
    /// Returns `true` if another writer was faster: the document exists, was changed, or is gone.
    pub fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Exists { .. } | Self::Changed { .. } | Self::Gone { .. }
        )
    }

    /// Returns `true` if the write may have taken effect.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Undecided { .. })
    }

    /// Returns `true` if the caller made an invalid request, so that a retry fails again.
    pub fn is_bad_request(&self) -> bool {
        matches!(self, Self::Criteria(_) | Self::Operation(_))
    }
}

impl From<IdError> for RepositoryError {
    fn from(error: IdError) -> Self {
        Self::Operation(error.into())
    }
}
