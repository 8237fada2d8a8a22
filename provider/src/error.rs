//! Which failure is worth a retry, decided once.

use cdb_client::Error;
use duroxide::providers::ProviderError;

/// Maps a failed request to duroxide's two kinds of error.
///
/// | failure | kind | why |
/// |---|---|---|
/// | throttled (429), unavailable (503), timed out, connection broken | retryable | the same call can succeed later |
/// | conflict (409), precondition failed (412), not found (404) | retryable | someone else was faster; a fresh look decides |
/// | too large (413), bad request (400), no right (401, 403), document that does not fit | permanent | the same call fails again |
///
/// Where 404, 409 or 412 mean something particular (lock lost, already done), the caller handles them before this.
pub(crate) fn provider_error(operation: &'static str, error: &Error) -> ProviderError {
    let message = error.to_string();
    if error.is_transient()
        || error.is_conflict()
        || error.is_precondition_failed()
        || error.is_not_found()
    {
        ProviderError::retryable(operation, message)
    } else {
        ProviderError::permanent(operation, message)
    }
}

/// A stored or handed-over value that cannot be written or read.
pub(crate) fn unreadable(operation: &'static str, error: impl std::fmt::Display) -> ProviderError {
    ProviderError::permanent(operation, error.to_string())
}

/// The lock that the caller believes to hold is not theirs. duroxide's suite looks for the first three words.
pub(crate) fn lock_lost(operation: &'static str, detail: impl std::fmt::Display) -> ProviderError {
    ProviderError::permanent(operation, format!("Invalid lock token: {detail}"))
}
