//! The instances in numbers: by state, and those that ended over time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::query::Filter;
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{Durable, Instance, Status};
use futures::{StreamExt as _, TryStreamExt as _, stream, try_join};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::view::instances::RUNNING;

/// The number of bars of the chart.
const BUCKETS: u64 = 24;

/// The number of buckets that are counted at the same time.
const CONCURRENT: usize = 4;

/// The shortest time after which all ended instances are counted again. The charge of that count
/// grows with their number, so each instance adds a millisecond.
const RECOUNT: Duration = Duration::from_secs(600);

/// The age at which a bucket is kept: a commit can be stored a little after the time that it states.
const SETTLED: Duration = Duration::from_secs(60);

/// The span of time that the chart covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Window {
    #[default]
    Hour,
    Day,
    Week,
}

/// The instances in numbers. Sub-orchestrations count too.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    pub running: u64,
    pub completed: u64,
    pub failed: u64,
    pub window: Window,
    /// The ended instances of the window, oldest first. The last bucket is not over.
    pub ended: Vec<Bucket>,
    pub bucket_ms: u64,
    pub now: Timestamp,
}

/// The instances that ended in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Bucket {
    pub from: Timestamp,
    pub completed: u64,
    pub failed: u64,
}

/// The counts of the past, so that a refresh counts only what is new.
#[derive(Debug, Default)]
pub(crate) struct PastCounts {
    /// The buckets by length and start.
    buckets: Mutex<BTreeMap<(u64, Timestamp), Bucket>>,
    /// The instances that had ended at a time.
    ended: Mutex<Option<Bucket>>,
}

impl Bucket {
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
    fn get(&self, length: u64, from: Timestamp) -> Option<Bucket> {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.get(&(length, from)).copied()
    }

    /// Keeps a bucket, and removes those of its length that are older than the window.
    fn keep(&self, length: u64, bucket: Bucket) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = bucket.from - Duration::from_millis(length * BUCKETS);
        buckets.retain(|(of, from), _| *of != length || *from >= oldest);
        buckets.insert((length, bucket.from), bucket);
    }

    /// Returns the instances that have ended: those of the last full count, and those since then.
    /// A deleted instance is in the number until the next full count.
    async fn all_ended(
        &self,
        container: &ContainerClient<Durable>,
    ) -> Result<Bucket, cdb_client::Error> {
        let now = container.now();
        let known = *self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.filter(|known| now.since(known.from) < known.lifetime());
        let known = if let Some(known) = known {
            known
        } else {
            let from = now - SETTLED;
            let counted = bucket(container, from, Instance::COMPLETED_AT.lt(from)).await?;
            *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
            counted
        };
        let new = bucket(container, known.from, Instance::COMPLETED_AT.ge(known.from)).await?;
        Ok(Bucket {
            from: known.from,
            completed: known.completed + new.completed,
            failed: known.failed + new.failed,
        })
    }
}

/// Counts the instances. Each count reads the index of every physical partition.
pub(crate) async fn read(
    container: &ContainerClient<Durable>,
    window: Window,
    past: &PastCounts,
) -> Result<Overview, Failure> {
    let now = container.now();
    let (running, all, ended) = try_join!(
        count(container, Instance::STATUS.is_in(RUNNING)),
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

async fn count(
    container: &ContainerClient<Durable>,
    filter: Filter<Instance>,
) -> Result<u64, cdb_client::Error> {
    let query = Query::<Instance>::across_partitions().filter(filter);
    // One count per physical partition.
    let counts = container.query(query.count()).all().await?;
    Ok(counts.into_iter().sum())
}

/// Counts the instances that ended in each bucket. Buckets begin at multiples of their length.
async fn ended(
    container: &ContainerClient<Durable>,
    window: Window,
    past: &PastCounts,
) -> Result<Vec<Bucket>, cdb_client::Error> {
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
    container: &ContainerClient<Durable>,
    from: Timestamp,
    time: Filter<Instance>,
) -> Result<Bucket, cdb_client::Error> {
    let of = |status| count(container, time.clone() & Instance::STATUS.eq(status));
    let (completed, failed) = try_join!(of(Status::Completed), of(Status::Failed))?;
    Ok(Bucket {
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
        let bucket = |number: u64| Bucket {
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
        assert_eq!(past.buckets.lock().unwrap().len(), 26);
    }
}
