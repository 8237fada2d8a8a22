//! The error type of this crate, which decides which failures are retryable.

use cdb_coordination::lease::Fenced;
use cdb_model::operation::BatchError;
use cdb_model::value::IdError;
use duroxide::providers::ProviderError;

/// The operations that open a container. A wrong key stays wrong, so its error is permanent there.
const OPENING: [&str; 2] = ["new", "for_tools"];

/// The result type of this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a call failed, with a variant per reaction of the caller. It does not name the
/// operation; [`InOperation`] adds the name at the edge of the crate.
///
/// | failure | kind | why |
/// |---|---|---|
/// | [`Request`](Self::Request): throttled (429), unavailable (503), timed out, connection broken | retryable | the same call can succeed later |
/// | `Request`: conflict (409), precondition failed (412), not found (404) | retryable | another writer was faster; a new read is needed |
/// | `Request`: not authorized (401, 403, no token) | retryable, except at opening | the rights of a working runtime return: a rotated key, a role that has not reached all nodes. The client has retried for 30 s |
/// | `Request`: logical partition full (403/1014) | permanent | the instance has reached 20 GB |
/// | `Request`: too large (413), bad request (400), document that does not fit, other partition key, untrusted certificate | permanent | the same call fails again |
/// | [`Retryable`](Self::Retryable), [`Undelivered`](Self::Undelivered) | retryable | the same call can succeed later |
/// | [`KeyUnavailable`](Self::KeyUnavailable) | retryable | the key may arrive later |
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
    /// The key of an encoded payload is unavailable here.
    #[error("{0}")]
    KeyUnavailable(String),
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
    /// A message of an instance that is to be deleted was not delivered.
    #[error("{0}")]
    Undelivered(String),
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
                    || error.is_denied()
            }
            Self::Retryable(_) | Self::KeyUnavailable(_) | Self::Undelivered(_) => true,
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
            retryable: self.is_retryable() && !(OPENING.contains(&operation) && self.is_denied()),
        }
    }

    /// Whether the service or the credential denied the identity.
    fn is_denied(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_denied())
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
        Fenced::CommittedBefore => Ok(None),
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

#[cfg(test)]
mod tests {
    use cdb_client::retry::RetryConfig;
    use cdb_client::transport::{Delivery, Script, Step};
    use cdb_client::{CosmosClient, MasterKey};

    use super::*;

    /// Returns the error of a request that is always answered like this.
    async fn answered(step: Step) -> Error {
        let client = CosmosClient::builder("http://localhost:8081")
            .credential(MasterKey::new(cdb_emulator::WELL_KNOWN_KEY).expect("a key"))
            .transport(Script::new((0..200).map(|_| step.clone())))
            .retry(RetryConfig::default())
            .build()
            .expect("a client");
        let refused = client.database("duroxide").delete().await;
        refused.expect_err("it is refused").into()
    }

    /// docs/errors.md has a row for each of these.
    #[tokio::test(start_paused = true)]
    async fn each_status_is_retryable_or_permanent_as_documented() {
        for (status, sub, retryable, at_opening) in [
            (400, 0, false, false),
            (401, 0, true, false),
            (403, 0, true, false),
            (403, 3, true, false),
            (403, 1008, true, false),
            (403, 1014, false, false),
            (403, 1028, true, false),
            (403, 5300, true, false),
            (403, 5301, true, false),
            (403, 5302, true, false),
            (404, 0, true, true),
            (404, 1002, true, true),
            (404, 1003, true, true),
            (404, 1013, true, true),
            (408, 0, true, true),
            (409, 0, true, true),
            (410, 1002, true, true),
            (410, 1007, true, true),
            (412, 0, true, true),
            (413, 0, false, false),
            (429, 3200, true, true),
            (449, 0, true, true),
            (500, 0, true, true),
            (503, 0, true, true),
        ] {
            let error = answered(Step::refusal(status, sub)).await;
            let at = |operation| error.in_operation(operation).retryable;
            assert_eq!(at("ack_orchestration_item"), retryable, "{status}/{sub}");
            assert_eq!(at("renew_work_item_lock"), retryable, "{status}/{sub}");
            assert_eq!(at("new"), at_opening, "{status}/{sub} at opening");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_answer_is_retryable_and_an_untrusted_server_is_not() {
        let lost = answered(Step::NoAnswer(Delivery::NotSent)).await;
        assert!(lost.in_operation("new").retryable);
        let untrusted = answered(Step::NoAnswer(Delivery::Untrusted)).await;
        assert!(!untrusted.in_operation("ack_work_item").retryable);
    }

    #[test]
    fn a_missing_token_is_retryable_except_at_opening() {
        let error = Error::from(cdb_client::Error::unauthorized("no token"));
        assert!(error.in_operation("ack_orchestration_item").retryable);
        assert!(!error.in_operation("new").retryable);
    }
}
