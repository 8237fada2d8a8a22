//! The errors of a body, and of an operation that cannot be staged.

use std::fmt;

use cdb_model::BatchError;

use super::limits::{MAX_BYTES, MAX_OPERATIONS};

/// Why the body of a transactional activity failed. The activity fails with this text, and none of
/// its effects take place.
///
/// `?` converts every error type, and every text:
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

/// Why an operation was not staged. The activity then fails without effects, also if its body
/// ignores this error.
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
        "the effects of one activity would have {operations} operations of {MAX_OPERATIONS} allowed; divide them among several activities"
    )]
    TooMany {
        /// The operations with this one.
        operations: usize,
    },
    /// The operations have too many bytes.
    #[error(
        "the effects of one activity would have {bytes} bytes of {MAX_BYTES} allowed; divide them among several activities"
    )]
    TooLarge {
        /// The bytes with this operation.
        bytes: usize,
    },
    /// The body of the activity has ended, so its effects are complete.
    #[error("the body of the activity has ended; stage its effects before it returns")]
    Ended,
}
