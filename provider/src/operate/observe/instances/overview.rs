//! The instances in numbers: by state, and those that ended over time.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::Result;
use cdb_model::Timestamp;
use cdb_model::query::Filter;
use futures::{StreamExt as _, TryStreamExt as _, stream, try_join};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::super::sample::Container;
use crate::operate::metrics::count;
use crate::stored::documents::{Instance, Status};
use crate::timing::{RECOUNT, SETTLED};

/// The number of bars of the chart.
const BUCKETS: u64 = 24;

/// The number of buckets that are counted at the same time.
const CONCURRENT: usize = 4;

/// The span of time of an [`Overview`], in 24 parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Window {
    /// The last hour.
    #[default]
    Hour,
    /// The last day.
    Day,
    /// The last week.
    Week,
}

/// The instances in numbers. Sub-orchestrations count too.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Overview {
    /// The instances that run.
    pub running: u64,
    /// Those that ended with a result.
    pub completed: u64,
    /// Those that ended with an error.
    pub failed: u64,
    /// The span of time of `ended`.
    pub window: Window,
    /// The ended instances of each part of the window, oldest first. The last part is not over.
    pub ended: Vec<EndedCount>,
    /// The length of a part in milliseconds.
    pub bucket_ms: u64,
    /// The service's time of the answer.
    pub now: Timestamp,
}

/// The instances that ended in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EndedCount {
    /// The start of the span.
    pub from: Timestamp,
    /// Those that ended with a result.
    pub completed: u64,
    /// Those that ended with an error.
    pub failed: u64,
}

/// The counts of the past, which a program keeps between overviews, so that a refresh counts only what is new.
#[derive(Debug, Default)]
pub struct PastCounts {
    /// The buckets by length and start.
    buckets: Mutex<BTreeMap<(u64, Timestamp), EndedCount>>,
    /// The instances that had ended at a time.
    ended: Mutex<Option<EndedCount>>,
}

impl EndedCount {
    /// Returns the time for which the count of all ended instances is used.
    fn lifetime(&self) -> Duration {
        RECOUNT + Duration::from_millis(self.completed + self.failed)
    }
}

impl Window {
    /// Returns the length of a bucket in milliseconds.
    fn bucket_millis(self) -> u64 {
        let minutes = match self {
            Self::Hour => 60,
            Self::Day => 24 * 60,
            Self::Week => 7 * 24 * 60,
        };
        minutes * 60_000 / BUCKETS
    }
}

impl PastCounts {
    fn get(&self, length: u64, from: Timestamp) -> Option<EndedCount> {
        let buckets = self.buckets.lock();
        buckets.get(&(length, from)).copied()
    }

    /// Keeps a bucket, and removes those of its length that are older than the window.
    fn keep(&self, length: u64, bucket: EndedCount) {
        let mut buckets = self.buckets.lock();
        let oldest = bucket.from - Duration::from_millis(length * BUCKETS);
        buckets.retain(|(of, from), _| *of != length || *from >= oldest);
        buckets.insert((length, bucket.from), bucket);
    }

    /// Returns the instances that have ended: those of the last full count, and those since then.
    /// A deleted instance is in the number until the next full count.
    async fn all_ended(&self, container: &Container) -> Result<EndedCount> {
        let now = container.now();
        let known = *self.ended.lock();
        let known = known.filter(|known| now.since(known.from) < known.lifetime());
        let known = if let Some(known) = known {
            known
        } else {
            let from = now - SETTLED;
            let counted = bucket(container, from, Instance::COMPLETED_AT.lt(from)).await?;
            *self.ended.lock() = Some(counted);
            counted
        };
        let new = bucket(container, known.from, Instance::COMPLETED_AT.ge(known.from)).await?;
        Ok(EndedCount {
            from: known.from,
            completed: known.completed + new.completed,
            failed: known.failed + new.failed,
        })
    }
}

/// Counts the instances. Each count reads the index of every physical partition.
pub(in super::super) async fn read(
    container: &Container,
    window: Window,
    past: &PastCounts,
) -> Result<Overview> {
    let now = container.now();
    let (running, all, ended) = try_join!(
        count(
            container,
            Instance::STATUS.is_in([Status::Running, Status::ContinuedAsNew])
        ),
        past.all_ended(container),
        ended(container, window, past),
    )?;
    Ok(Overview {
        running,
        completed: all.completed,
        failed: all.failed,
        window,
        ended,
        bucket_ms: window.bucket_millis(),
        now,
    })
}

/// Counts the instances that ended in each bucket. EndedCounts begin at multiples of their length.
async fn ended(
    container: &Container,
    window: Window,
    past: &PastCounts,
) -> Result<Vec<EndedCount>> {
    let (length, now) = (window.bucket_millis(), container.now());
    let newest = now.as_millis() / length;
    let starts = (newest.saturating_sub(BUCKETS - 1)..=newest)
        .map(|number| Timestamp::from_millis(number * length));
    let buckets = starts.map(|from| async move {
        if let Some(known) = past.get(length, from) {
            return Ok(known);
        }
        let until = from + Duration::from_millis(length);
        let time = Instance::COMPLETED_AT.ge(from) & Instance::COMPLETED_AT.lt(until);
        let bucket = bucket(container, from, time).await?;
        if now.since(until) > SETTLED {
            past.keep(length, bucket);
        }
        Ok(bucket)
    });
    stream::iter(buckets)
        .buffered(CONCURRENT)
        .try_collect()
        .await
}

/// Counts the instances that ended in a span of time.
async fn bucket(
    container: &Container,
    from: Timestamp,
    time: Filter<Instance>,
) -> Result<EndedCount> {
    let of = |status| count(container, time.clone() & Instance::STATUS.eq(status));
    let (completed, failed) = try_join!(of(Status::Completed), of(Status::Failed))?;
    Ok(EndedCount {
        from,
        completed,
        failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_buckets_of_one_window_are_kept() {
        let (past, length) = (PastCounts::default(), Window::Hour.bucket_millis());
        let bucket = |number: u64| EndedCount {
            from: Timestamp::from_millis(number * length),
            completed: number,
            failed: 0,
        };
        for number in 100..200 {
            past.keep(length, bucket(number));
        }
        past.keep(Window::Week.bucket_millis(), bucket(1));
        assert_eq!(past.get(length, bucket(199).from), Some(bucket(199)));
        assert_eq!(past.get(length, bucket(174).from), None);
        assert_eq!(past.buckets.lock().len(), 26);
    }
}
