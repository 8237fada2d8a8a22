//! The search for due intents: in each physical partition separately, oldest first.
//!
//! The runtimes divide the intents by the dispatch slot of the sender, and take overdue intents of
//! other runtimes. A search skips intents whose target is in backoff.

use cdb_client::partitions::PhysicalPartitionId;
use cdb_coordination::search::Runs;
use cdb_model::stored::Unreadable;
use cdb_model::{Patch, Query, Stored, Timestamp};
use futures::StreamExt as _;
use futures::stream;

use crate::error::Result;
use crate::queue::intents::Intent;
use crate::queue::poll::{Due, DueSearch, Part, PolledQueue, Share, probe};
use crate::queue::{CONCURRENCY, Services};
use crate::stored::documents::{NEVER, OutboxIntent, Partial, dispatch_slot};
use crate::timing::OVERDUE_AFTER;

/// Returns up to `most` due intents, or a few more. Leaves out partitions that do not answer.
///
/// # Errors
/// Fails when the physical partitions cannot be listed.
pub(super) async fn due(services: &Services, most: usize) -> cdb_client::Result<Vec<Intent>> {
    let delivery = &services.delivery;
    let due = probe::due(services, PolledQueue::Intents, delivery.reconciler_interval).await;
    let due = due.unwrap_or(Due::Anywhere);
    if due.is_nothing() {
        return Ok(Vec::new());
    }
    let ranges = services.container().physical_partitions().await?;
    let share = services.queues.shares.widest(ranges).await;
    let mut ranges = services
        .container()
        .health()
        .available(due.all_ranges(&share));
    delivery.rotate(&mut ranges);
    let search = Search {
        services,
        share: &share,
        most,
    };
    let searches: Vec<_> = ranges.iter().map(|range| search.range(range)).collect();
    let mut answers = stream::iter(searches).buffer_unordered(CONCURRENCY);
    let mut found = Vec::new();
    while found.len() < most
        && let Some(answer) = answers.next().await
    {
        // A failure is logged with the backoff of its partition.
        found.extend(answer.unwrap_or_default());
    }
    Ok(found)
}

/// One search.
struct Search<'a> {
    services: &'a Services,
    share: &'a Share,
    most: usize,
}

impl Search<'_> {
    /// Returns the due intents of a physical partition that this runtime delivers now. Turns
    /// undecodable ones into dead letters.
    async fn range(&self, range: &PhysicalPartitionId) -> Result<Vec<Intent>> {
        let search = DueSearch {
            container: self.services.container(),
            range,
            windows: &self.services.delivery.windows,
            enough: u32::try_from(self.most / 2).unwrap_or(u32::MAX),
        };
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        let note = |row, _| {
            let created_at = created_at(&row);
            let runs = Runs::now_if(
                row.as_ref()
                    .is_ok_and(|row| self.is_due(range, &row.document)),
            );
            match row {
                Ok(stored) if runs == Runs::Now => found.push(Intent::Found(stored)),
                Ok(_) => {}
                Err(row) => unreadable.push(row),
            }
            (created_at, runs)
        };
        let searched = search.run(|from| self.query(range, from), note).await;
        for row in &unreadable {
            self.dead_letter_unreadable(range, row).await;
        }
        searched.map(|_| found)
    }

    /// Returns the query for the due intents of a physical partition, oldest first.
    fn query(&self, range: &PhysicalPartitionId, from: Option<Timestamp>) -> Query<OutboxIntent> {
        let due = self.services.store.now() - self.services.delivery.reconciler_age;
        let until = match self.share.part(range) {
            Part::Overdue => due - OVERDUE_AFTER,
            Part::All | Part::Slots { .. } => due,
        };
        let created_at = OutboxIntent::CREATED_AT;
        let filter = from.map_or_else(
            || created_at.le(until),
            |from| created_at.between(from, until),
        );
        Query::across_partitions()
            .filter(filter)
            .order_by(OutboxIntent::BY_CREATED)
    }

    /// Returns whether this runtime delivers an intent now.
    fn is_due(&self, range: &PhysicalPartitionId, intent: &OutboxIntent) -> bool {
        self.has(range, intent) && !self.services.is_unreachable(&intent.target_instance_id)
    }

    /// Returns whether an intent belongs to this runtime, or is overdue and taken over.
    fn has(&self, range: &PhysicalPartitionId, intent: &OutboxIntent) -> bool {
        let slot = dispatch_slot(&intent.instance_id);
        let due_at = intent.created_at + self.services.delivery.reconciler_age;
        let late_by = self.services.store.now().since(due_at);
        self.share.has(range, slot) || self.share.takes_over(slot, late_by)
    }

    /// Turns an undecodable intent into a dead letter with the reason, so that it does not block
    /// others.
    async fn dead_letter_unreadable(&self, range: &PhysicalPartitionId, found: &Unreadable) {
        let store = &self.services.store;
        store.corrupt_documents.report(found);
        let Some(stored) = OutboxIntent::partial_stored(found) else {
            return;
        };
        if !self.has(range, &stored.document) {
            return;
        }
        let patch = Patch::new()
            .set(OutboxIntent::FAILURE, Some(found.to_string()))
            .set(OutboxIntent::CREATED_AT, NEVER);
        if let Err(error) = store.container.run(patch.at(&stored)).await {
            tracing::debug!(%error, "cannot write a dead letter; retrying in the next round");
        }
    }
}

/// Returns the creation time of an intent, decoded or not.
fn created_at(row: &Result<Stored<OutboxIntent>, Unreadable>) -> Option<Timestamp> {
    match row {
        Ok(stored) => Some(stored.document.created_at),
        Err(found) => found.field(OutboxIntent::CREATED_AT),
    }
}
