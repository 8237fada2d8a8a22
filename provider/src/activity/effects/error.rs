//! The errors of a body, and of an operation that cannot be staged.

use std::fmt;

use cdb_model::operation::BatchError;

use super::limits::{MAX_BYTES, MAX_OPERATIONS};

/// The error of the body of a transactional activity. The activity fails with its text and without
/// effects. If the error or one of its causes is a transient [`cdb_client::Error`], the activity is
/// released instead and runs again.
///
/// `?` converts every error type and every text:
///
/// ```
/// use cdb_provider::ActivityError;
///
/// fn seats(input: &str) -> Result<u32, ActivityError> {
///     let seats = input.parse()?;
///     if seats == 0 {
///         return Err("order at least one seat".into());
///     }
///     Ok(seats)
/// }
/// assert_eq!(seats("0").unwrap_err().to_string(), "order at least one seat");
/// ```
#[derive(Debug)]
pub struct ActivityError(Box<dyn std::error::Error + Send + Sync>);

impl ActivityError {
    /// Returns `true` if this error or one of its causes is a transient [`cdb_client::Error`].
    pub(super) fn is_transient(&self) -> bool {
        let first: &(dyn std::error::Error + 'static) = &*self.0;
        let mut causes = std::iter::successors(Some(first), |error| error.source());
        causes.any(|error| {
            let request = error.downcast_ref::<cdb_client::Error>();
            request.is_some_and(cdb_client::Error::is_transient)
        })
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for ActivityError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for ActivityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The reason why an operation was not staged. The activity then fails without effects, even if its
/// body ignores this error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EffectsError {
    /// The operation cannot be part of a batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A message cannot be written as JSON, or is too large.
    #[error(transparent)]
    Message(#[from] serde_json::Error),
    /// There are too many operations.
    #[error(
        "the activity stages {operations} operations, {MAX_OPERATIONS} are allowed; divide them among several activities"
    )]
    TooMany {
        /// The operations with this one.
        operations: usize,
    },
    /// The operations have too many bytes.
    #[error(
        "the activity stages {bytes} bytes, {MAX_BYTES} are allowed; divide them among several activities"
    )]
    TooLarge {
        /// The bytes with this operation.
        bytes: usize,
    },
    /// The activity was created without messaging.
    #[error("the activity cannot send messages; create it with `transactional_with`")]
    NoMessaging,
    /// The body of the activity has ended, so its effects are complete.
    #[error("the body of the activity has ended; stage its effects before it returns")]
    Ended,
}

#[cfg(test)]
mod tests {
    use cdb_client::transport::{Delivery, Script, Step};
    use cdb_client::{CosmosClient, MasterKey};

    use super::*;

    /// An error of a program, which names its cause.
    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the order")]
    struct CannotRead(#[source] cdb_client::Error);

    async fn answered(step: Step) -> cdb_client::Error {
        let client = CosmosClient::builder("http://localhost:8081")
            .credential(MasterKey::new(cdb_emulator::WELL_KNOWN_KEY).expect("a key"))
            .transport(Script::new((0..200).map(|_| step.clone())))
            .build()
            .expect("a client");
        let refused = client.database("duroxide").delete().await;
        refused.expect_err("it is refused")
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_recognized_as_the_error_and_as_its_cause() {
        let outage = async || answered(Step::NoAnswer(Delivery::NotSent)).await;
        assert!(ActivityError::from(outage().await).is_transient());
        assert!(ActivityError::from(CannotRead(outage().await)).is_transient());
        let refused = answered(Step::refusal(413, 0)).await;
        assert!(!ActivityError::from(CannotRead(refused)).is_transient());
        assert!(!ActivityError::from("status 503").is_transient());
    }
}
