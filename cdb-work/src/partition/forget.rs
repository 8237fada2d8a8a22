//! Deletes idle streams, so that a container does not keep a document of each past stream.
//!
//! A coordinator searches one of its partitions per interval of upkeep, in a task of its own.

use std::sync::Weak;

use cdb_model::{Batch, Patch, Query, Stored, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::round::next_round;
use crate::error::WorkError;
use crate::memory::inner::Inner;
use crate::memory::state::later;
use crate::memory::unreadable::report;
use crate::streams::documents::{Work, WorkPartition, WorkPartitionKey, WorkStream};
use crate::streams::stream::StreamKey;
use cdb_coordination::search::Rows;

/// How many streams fit into one batch, besides the operation that checks the fence.
const MOST_FORGOTTEN: u32 = 99;

/// Deletes idle streams until the coordinator is dropped: at intervals, in one partition at a time.
pub(crate) async fn run(inner: Weak<Inner>, stop: CancellationToken) {
    let mut left: Vec<u16> = Vec::new();
    let mut next = None;
    while let Some(inner) = next_round(&inner, &stop).await {
        let start = *next.get_or_insert_with(|| later(inner.config.forget));
        if left.is_empty() && start <= Instant::now() {
            next = None;
            left = inner.state().owned().map(|(index, _)| index).collect();
        }
        let Some(partition) = left.pop() else {
            continue;
        };
        let before = inner.container.now() - inner.config.remember;
        match inner.forget_in(partition, before).await {
            // There may be more.
            Ok(forgotten) if forgotten >= most_forgotten() => left.push(partition),
            Ok(_) => {}
            Err(error) => tracing::warn!(partition, %error, "idle streams were not deleted"),
        }
    }
}

fn most_forgotten() -> usize {
    usize::try_from(MOST_FORGOTTEN).unwrap_or(usize::MAX)
}

impl Inner {
    /// Only the holder of a partition may delete streams, because it has their progress in memory.
    /// So the batch checks the fence, and each stream must have the version that was read as idle.
    pub(crate) async fn forget_in(
        &self,
        partition: u16,
        before: Timestamp,
    ) -> Result<usize, WorkError> {
        let rows = self.find_idle(partition, before).await?;
        let gate = self.gates.get(usize::from(partition));
        let Some(gate) = gate.filter(|_| !rows.is_empty()) else {
            return Ok(0);
        };
        let mut heads = gate.lock().await;
        let Some((fence, token)) = self.state().fence_and_token(partition) else {
            return Ok(0);
        };
        let name = self.config.partitions.name(partition);
        let mut batch = Batch::<Work>::new(name.as_str());
        let held = Patch::<WorkPartition>::new()
            .set(WorkPartition::TOKEN, token.clone())
            .when(WorkPartition::FENCE.eq(fence))
            .when_eq(WorkPartition::TOKEN, token);
        batch.add(held.at(&WorkPartitionKey::new(name)))?;
        for row in &rows {
            batch.add(row.delete())?;
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

    /// Returns streams without waiting messages that were last written before a time, as many as
    /// fit into one batch.
    async fn find_idle(
        &self,
        partition: u16,
        before: Timestamp,
    ) -> Result<Vec<Stored<WorkStream>>, WorkError> {
        let name = self.config.partitions.name(partition);
        let query = Query::<WorkStream>::in_partition(name)
            .filter(WorkStream::TOUCHED.lt(before))
            .order_by(WorkStream::TOUCHED.asc());
        // The batch that deletes them is not background work: commits of the partition wait behind it.
        let container = self.container.in_background();
        let mut pages = container.query(query).row_by_row().pages();
        let mut idle = Vec::new();
        while idle.len() < most_forgotten()
            && let Some(page) = pages.next_page().await?
        {
            let found = Rows::apart(page);
            found.unreadable.iter().for_each(report);
            // Old streams may wait behind messages that are dead.
            let is_idle = |row: &Stored<WorkStream>| row.document.next == row.document.done + 1;
            idle.extend(found.rows.into_iter().filter(is_idle));
        }
        idle.truncate(most_forgotten());
        Ok(idle)
    }
}
