//! The error type of this crate, which decides which failures are retryable.

use cdb_coordination::Fenced;
use cdb_model::{BatchError, IdError};
use duroxide::providers::ProviderError;

/// The result type of this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a call failed, with a variant per reaction of the caller. It does not name the
/// operation; [`InOperation`] adds the name at the edge of the crate.
///
/// | failure | kind | why |
/// |---|---|---|
/// | [`Request`](Self::Request): throttled (429), unavailable (503), timed out, connection broken | retryable | the same call can succeed later |
/// | `Request`: conflict (409), precondition failed (412), not found (404) | retryable | another writer was faster; a new read is needed |
/// | `Request`: too large (413), bad request (400), not authorized (401, 403), document that does not fit | permanent | the same call fails again |
/// | [`Retryable`](Self::Retryable) | retryable | the same call can succeed later |
/// | all others | permanent | the same call fails again |
///
/// Where 404, 409 or 412 have a specific meaning (lock lost, already done), the caller handles them
/// first.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] cdb_client::Error),
    /// A document, key or patch does not fit into a batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A key has no id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A value cannot be written as JSON, or a stored text is not the JSON of its type.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A stored text is damaged.
    #[error("{0}")]
    Damaged(String),
    /// The caller does not hold the lock. duroxide's validation suite looks for the first three
    /// words.
    #[error("Invalid lock token: {0}")]
    LockLost(&'static str),
    /// The call breaks a rule or a limit of this provider.
    #[error("{0}")]
    Refused(String),
    /// The service gave no usable answer, the documents changed during every attempt, or another
    /// delivery has to come first.
    #[error("{0}")]
    Retryable(String),
}

impl Error {
    /// Returns whether the same call can succeed later.
    pub(crate) fn is_retryable(&self) -> bool {
        match self {
            Self::Request(error) => {
                error.is_transient()
                    || error.is_conflict()
                    || error.is_precondition_failed()
                    || error.is_not_found()
            }
            Self::Retryable(_) => true,
            Self::Batch(_)
            | Self::Id(_)
            | Self::Json(_)
            | Self::Damaged(_)
            | Self::LockLost(_)
            | Self::Refused(_) => false,
        }
    }

    /// Converts to duroxide's error.
    pub(crate) fn in_operation(&self, operation: &'static str) -> ProviderError {
        ProviderError {
            operation: operation.to_owned(),
            message: self.to_string(),
            retryable: self.is_retryable(),
        }
    }
}

/// Returns the answer to a committed write; `None` when the write is known to be committed but its
/// answer was lost.
///
/// # Errors
/// Fails when the write was refused or lost, or its outcome is unknown.
pub(crate) fn committed<A>(fenced: Fenced<A>) -> Result<Option<A>> {
    match fenced {
        Fenced::Committed(answer) => Ok(answer),
        Fenced::Earlier => Ok(None),
        Fenced::Refused(error) | Fenced::Unknown(Some(error)) => Err(error.into()),
        Fenced::Lost => Err(Error::Retryable("another writer was faster".to_owned())),
        Fenced::Unknown(None) => Err(Error::Retryable("the service did not answer".to_owned())),
    }
}

/// Adds the operation's name at the edge of the crate.
pub(crate) trait InOperation<T> {
    /// Converts the error to duroxide's.
    fn in_operation(self, operation: &'static str) -> Result<T, ProviderError>;
}

impl<T, E: Into<Error>> InOperation<T> for Result<T, E> {
    fn in_operation(self, operation: &'static str) -> Result<T, ProviderError> {
        self.map_err(|error| error.into().in_operation(operation))
    }
}
