//! Which physical partitions answer: a deadline and a backoff for each.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use cdb_client::RangeId;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::mutex::lock;

/// The deadline of a query, and the first backoff after it.
const FIRST: Duration = Duration::from_secs(1);

/// The longest backoff. It doubles with each failure.
const LONGEST: Duration = Duration::from_secs(30);

/// The physical partitions that did not answer lately.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    failing: Mutex<HashMap<RangeId, Failing>>,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    backoff: Duration,
    retry_at: Instant,
}

impl Ranges {
    /// Returns the ranges that are not in backoff; all of them if every range is failing, because
    /// then a query delays no other.
    pub(crate) fn available(&self, ranges: Vec<RangeId>) -> Vec<RangeId> {
        let (failing, now) = (lock(&self.failing), Instant::now());
        let may_retry = |range: &RangeId| {
            let state = failing.get(range);
            state.is_none_or(|state| state.retry_at <= now)
        };
        if ranges.iter().any(|range| !failing.contains_key(range)) {
            return ranges.into_iter().filter(may_retry).collect();
        }
        ranges
    }

    /// Returns the rest of the backoff of a range, while other ranges answer. `ranges` are all
    /// ranges of the container.
    pub(crate) fn backoff_of(&self, range: &RangeId, ranges: Vec<RangeId>) -> Option<Duration> {
        if self.available(ranges).contains(range) {
            return None;
        }
        let retry_at = lock(&self.failing).get(range)?.retry_at;
        Some(retry_at.saturating_duration_since(Instant::now()))
    }

    /// Whether every range answered its last poll.
    pub(crate) fn all_answer(&self) -> bool {
        lock(&self.failing).is_empty()
    }

    /// Awaits the answer of a range, and notes whether the range answered. If `others` are waiting
    /// for the poll to end, the range has a deadline.
    ///
    /// # Errors
    /// Fails when the query fails, or the deadline has passed.
    pub(crate) async fn answer<T>(
        &self,
        range: &RangeId,
        others: &[RangeId],
        query: impl Future<Output = cdb_client::Result<T>>,
    ) -> Result<T> {
        let delays_others = self.delays_others(range, others);
        let answer = if delays_others {
            tokio::time::timeout(FIRST, query).await
        } else {
            Ok(query.await)
        };
        let answer = match answer {
            Ok(answer) => answer.map_err(Error::from),
            Err(_) => Err(Error::Retryable(format!(
                "physical partition {range} did not answer within {FIRST:?}"
            ))),
        };
        let mut failing = lock(&self.failing);
        match &answer {
            Err(error) if !is_split(error) => {
                let before = failing.get(range).map(|state| state.backoff);
                let backoff = before.map_or(FIRST, |backoff| (backoff * 2).min(LONGEST));
                let retry_at = Instant::now() + backoff;
                if delays_others {
                    tracing::warn!(%range, %error, ?backoff, "cannot poll a physical partition");
                }
                failing.insert(range.clone(), Failing { backoff, retry_at });
            }
            _ => {
                failing.remove(range);
            }
        }
        drop(failing);
        answer
    }

    /// Returns whether a range that answers waits for this one.
    fn delays_others(&self, range: &RangeId, others: &[RangeId]) -> bool {
        let failing = lock(&self.failing);
        let answers = |other: &RangeId| other != range && !failing.contains_key(other);
        others.iter().any(answers)
    }
}

/// Returns the answers of those partitions that answered, and whether all did.
///
/// # Errors
/// Fails when every partition failed.
pub(super) fn answered<T>(answers: Vec<Result<T>>) -> Result<(Vec<T>, bool)> {
    let count = answers.len();
    let (mut answered, mut failed) = (Vec::with_capacity(count), None);
    for answer in answers {
        match answer {
            Ok(answer) => answered.push(answer),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if answered.is_empty() => Err(error),
        _ => {
            let is_complete = answered.len() == count;
            Ok((answered, is_complete))
        }
    }
}

/// Returns whether the queried partition no longer exists, because it was split or merged.
pub(super) fn is_split(error: &Error) -> bool {
    matches!(error, Error::Request(error) if error.is_partition_split())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&str]) -> Vec<RangeId> {
        serde_json::from_value(serde_json::json!(ids)).expect("a range id is a string")
    }

    /// Queries a range that never answers.
    async fn fail(state: &Ranges, range: &RangeId, others: &[RangeId]) {
        let silent = std::future::pending::<cdb_client::Result<()>>();
        let answer = state.answer(range, others, silent).await;
        assert!(answer.is_err_and(|error| error.is_retryable()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_range_has_a_deadline_and_a_growing_backoff_until_it_answers() {
        let (state, all) = (Ranges::default(), ids(&["0", "1"]));
        for backoff in [1, 2, 4, 8, 16, 30, 30] {
            let begun = Instant::now();
            fail(&state, &all[1], &all).await;
            assert_eq!(begun.elapsed(), FIRST);
            assert_eq!(state.available(all.clone()), ids(&["0"]));
            tokio::time::advance(Duration::from_secs(backoff)).await;
            assert_eq!(state.available(all.clone()), all);
        }
        let answer = state.answer(&all[1], &all, async { Ok(7) }).await;
        assert_eq!(answer.expect("it answers"), 7);
        assert!(lock(&state.failing).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_range_that_delays_no_other_has_no_deadline() {
        let (state, all) = (Ranges::default(), ids(&["0", "1"]));
        let slow = async {
            tokio::time::sleep(FIRST * 5).await;
            Ok(7)
        };
        assert!(state.answer(&all[0], &all[..1], slow).await.is_ok());
        fail(&state, &all[0], &all).await;
        let of_first = lock(&state.failing)[&all[0]];
        lock(&state.failing).insert(all[1].clone(), of_first);
        assert_eq!(state.available(all.clone()), all, "every range is retried");
        let slow = async {
            tokio::time::sleep(FIRST * 5).await;
            Ok(7)
        };
        assert!(state.answer(&all[0], &all, slow).await.is_ok());
    }
}
