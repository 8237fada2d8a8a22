//! Which physical partitions answer: a deadline and a backoff for each.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_client::RangeId;
use tokio::time::Instant;

use crate::error::{Error, Result};

/// The deadline of the first query, and the first backoff. Both double with each failure, so that a
/// slow partition, or a slow machine, answers in the end.
const FIRST: Duration = Duration::from_secs(1);

/// The longest deadline and backoff.
const LONGEST: Duration = Duration::from_secs(30);

/// The physical partitions that did not answer lately.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    failing: Mutex<HashMap<RangeId, Failing>>,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    /// The deadline of the next query, and the backoff before it.
    pause: Duration,
    retry_at: Instant,
}

impl Ranges {
    fn failing(&self) -> MutexGuard<'_, HashMap<RangeId, Failing>> {
        // The state is valid between any two statements, so a panic elsewhere does not corrupt it.
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the ranges in backoff. A single range has none: a poll of it delays no other.
    pub(crate) fn available(&self, mut ranges: Vec<RangeId>) -> Vec<RangeId> {
        if ranges.len() > 1 {
            let (failing, now) = (self.failing(), Instant::now());
            ranges.retain(|range| failing.get(range).is_none_or(|state| state.retry_at <= now));
        }
        ranges
    }

    /// Awaits the answer of a range until its deadline, and notes whether the range answered.
    ///
    /// # Errors
    /// Fails when the query fails, or the deadline has passed.
    pub(crate) async fn answer<T>(
        &self,
        range: &RangeId,
        query: impl Future<Output = cdb_client::Result<T>>,
    ) -> Result<T> {
        let deadline = self.failing().get(range).map_or(FIRST, |state| state.pause);
        let answer = match tokio::time::timeout(deadline, query).await {
            Ok(answer) => answer.map_err(Error::from),
            Err(_) => Err(Error::Retryable(format!(
                "physical partition {range} did not answer within {deadline:?}"
            ))),
        };
        let mut failing = self.failing();
        match &answer {
            Err(error) if !is_split(error) => {
                let pause = (deadline * 2).min(LONGEST);
                let retry_at = Instant::now() + deadline;
                tracing::warn!(%range, %error, backoff = ?deadline, "cannot poll a physical partition");
                failing.insert(range.clone(), Failing { pause, retry_at });
            }
            _ => {
                failing.remove(range);
            }
        }
        drop(failing);
        answer
    }
}

/// Returns whether the queried partition no longer exists, because it was split or merged.
pub(super) fn is_split(error: &Error) -> bool {
    matches!(error, Error::Request(error) if error.is_partition_split())
}
