//! The reasons why an answer fails.

use cdb_model::query::CriteriaError;
use duroxide::providers::ProviderError;

use crate::error::Error;

/// Why an answer failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// The service refused a request or did not answer, or a document cannot be decoded.
    #[error(transparent)]
    Request(#[from] cdb_client::Error),
    /// A condition or a sort names no indexed field, or has a value of a wrong type.
    #[error(transparent)]
    Criteria(#[from] CriteriaError),
    /// A history or value is damaged, or the key of its payloads is unavailable.
    #[error(transparent)]
    Stored(ProviderError),
}

impl From<Error> for ObserveError {
    fn from(error: Error) -> Self {
        match error {
            Error::Request(error) => Self::Request(error),
            other => Self::Stored(other.in_operation("observe")),
        }
    }
}
