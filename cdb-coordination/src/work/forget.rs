//! Forgetting streams at rest, so that a container does not keep a document for every stream that ever was.
//!
//! By itself a coordinator looks at one of its partitions at a time, between two looks at its leases, so that no lease has to
//! wait for it.

use std::time::Duration;

use cdb_model::{Batch, Patch, Query, Stored, Timestamp};
use tokio::time::Instant;

use super::documents::{Work, WorkPartition, WorkPartitionKey, WorkStream};
use super::error::WorkError;
use super::inner::Inner;
use super::stream_order::StreamKey;
use super::unreadable::report;
use crate::search::Found;

/// Streams in one batch, beside the operation that checks the fence.
const MOST_FORGOTTEN: u32 = 99;

/// When to look again, and where this round still has to.
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

    /// Looks at one partition, if it is time to.
    pub(super) async fn go_on(&mut self, inner: &Inner) {
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
            Err(error) => tracing::warn!(partition, %error, "streams at rest were not forgotten"),
        }
    }
}

fn most_forgotten() -> usize {
    usize::try_from(MOST_FORGOTTEN).unwrap_or(usize::MAX)
}

/// A time that cannot be told is a year away.
fn later(after: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + after.min(YEAR)
}

impl Inner {
    /// Only the holder may do this, since it is the one that remembers how far streams are; so the fence is checked by the
    /// batch, and each stream must be what it was when it was read to be at rest.
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
            .top(MOST_FORGOTTEN);
        let found = self.container.query(query).row_by_row().all().await?;
        let found = Found::apart(found);
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
        // Deleted or perhaps deleted: what is remembered of them is of no use.
        let mut state = self.state();
        for row in &rows {
            let key = StreamKey::new(row.document.lane, &row.document.stream);
            heads.remove(&key);
            if let Some(owned) = &mut state.partition(partition).owned {
                owned.streams.forget(&key);
            }
        }
        drop(state);
        match executed {
            Ok(_) => Ok(rows.len()),
            // Some of them have moved, or the partition is another's by now.
            Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}
