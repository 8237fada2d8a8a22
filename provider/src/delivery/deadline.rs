//! The deadline of a request to a partition. Intents for other partitions wait for the end of the
//! round.

use std::future::Future;

use crate::error::{Error, Result};
use crate::timing::{DELIVERY_DEADLINE, DELIVERY_PER_OPERATION};

/// Awaits a request with few operations.
///
/// # Errors
/// Fails when the request fails, or the deadline has passed.
pub(super) async fn in_time<T, E: Into<Error>>(
    request: impl Future<Output = Result<T, E>>,
) -> Result<T> {
    bulk_in_time(0, request).await
}

/// Awaits a request with this number of operations.
///
/// # Errors
/// Fails when the request fails, or the deadline has passed.
pub(super) async fn bulk_in_time<T, E: Into<Error>>(
    operations: usize,
    request: impl Future<Output = Result<T, E>>,
) -> Result<T> {
    let more = DELIVERY_PER_OPERATION.saturating_mul(u32::try_from(operations).unwrap_or(u32::MAX));
    match tokio::time::timeout(DELIVERY_DEADLINE + more, request).await {
        Ok(answered) => answered.map_err(Into::into),
        Err(_) => Err(unanswered()),
    }
}

pub(super) fn unanswered() -> Error {
    Error::Retryable("the partition did not answer in time".to_owned())
}
