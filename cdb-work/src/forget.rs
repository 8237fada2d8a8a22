//! Deletes idle streams, so that a container does not keep a document of each past stream.
//!
//! A coordinator searches one of its partitions between two lease renewals, so that no lease waits
//! for the search.

use std::time::Duration;

use cdb_model::{Batch, Patch, Query, Stored, Timestamp};
use tokio::time::Instant;

use super::documents::{Work, WorkPartition, WorkPartitionKey, WorkStream};
use super::error::WorkError;
use super::inner::Inner;
use super::stream::StreamKey;
use super::unreadable::report;
use cdb_coordination::Rows;

/// How many streams fit into one batch, besides the operation that checks the fence.
const MOST_FORGOTTEN: u32 = 99;

/// When the next round starts, and which partitions this round still has to search.
pub(super) struct Rounds {
    every: Duration,
    next: Instant,
    left: Vec<u16>,
}

impl Rounds {
    pub(super) fn new(every: Duration) -> Self {
        Self {
            every,
            next: later(every),
            left: Vec::new(),
        }
    }

    /// Searches one partition, if it is time.
    pub(super) async fn step(&mut self, inner: &Inner) {
        if self.left.is_empty() && self.next <= Instant::now() {
            self.next = later(self.every);
            self.left = inner.state().owned().map(|(index, _)| index).collect();
        }
        let Some(partition) = self.left.pop() else {
            return;
        };
        let before = inner.container.now() - inner.config.remember;
        match inner.forget_in(partition, before).await {
            // There may be more.
            Ok(forgotten) if forgotten >= most_forgotten() => self.left.push(partition),
            Ok(_) => {}
            Err(error) => tracing::warn!(partition, %error, "idle streams were not deleted"),
        }
    }
}

fn most_forgotten() -> usize {
    usize::try_from(MOST_FORGOTTEN).unwrap_or(usize::MAX)
}

/// Limits an unrepresentable time to one year.
fn later(after: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + after.min(YEAR)
}

impl Inner {
    /// Only the holder of a partition may delete streams, because it has their progress in memory.
    /// So the batch checks the fence, and each stream must have the version that was read as idle.
    pub(super) async fn forget_in(
        &self,
        partition: u16,
        before: Timestamp,
    ) -> Result<usize, WorkError> {
        let gate = self.gates.get(usize::from(partition));
        let Some(gate) = gate else { return Ok(0) };
        let mut heads = gate.lock().await;
        let Some(fence) = self.state().fence_of(partition) else {
            return Ok(0);
        };
        let name = self.config.partitions.name(partition);
        let query = Query::<WorkStream>::in_partition(name.as_str())
            .filter(WorkStream::TOUCHED.lt(before))
            .order_by(WorkStream::TOUCHED.asc())
            .limit(MOST_FORGOTTEN);
        let found = self.container.query(query).row_by_row().all().await?;
        let found = Rows::apart(found);
        found.unreadable.iter().for_each(report);
        let mut rows: Vec<Stored<WorkStream>> = found.rows;
        rows.retain(|row| row.document.next == row.document.done + 1);
        if rows.is_empty() {
            return Ok(0);
        }
        let mut batch = Batch::<Work>::new(name.as_str());
        let held = Patch::<WorkPartition>::new()
            .set(WorkPartition::TOKEN, String::new())
            .when(WorkPartition::FENCE.eq(fence));
        batch.patch(&WorkPartitionKey::new(name), &held)?;
        for row in &rows {
            batch.delete_stored(row)?;
        }
        let executed = self.container.execute(&batch).await;
        // Forget the streams also after a failure: they may be deleted.
        let mut state = self.state();
        for row in &rows {
            let key = StreamKey::new(row.document.lane, &row.document.stream);
            heads.streams.remove(&key);
            if let Some(owned) = &mut state.partition(partition).owned {
                owned.streams.forget(&key);
            }
        }
        drop(state);
        match executed {
            Ok(_) => Ok(rows.len()),
            // A stream has changed, or another coordinator holds the partition.
            Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}
