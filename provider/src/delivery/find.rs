//! The search for due intents: in each physical partition separately, oldest first.
//!
//! The runtimes divide the intents by the dispatch slot of the sender, and take overdue intents of
//! other runtimes. A search skips intents whose target is in backoff.

use cdb_client::RangeId;
use cdb_coordination::Runs;
use cdb_model::{Patch, Query, Stored, Timestamp, Unreadable};
use futures::StreamExt as _;
use futures::stream;

use crate::error::Result;
use crate::queue::Services;
use crate::queue::intents::Intent;
use crate::queue::poll::{Due, Part, Share, probe};
use crate::stored::documents::{NEVER, OutboxIntent, Partial, dispatch_slot};
use crate::timing::OVERDUE_AFTER;

/// The number of physical partitions that are searched at a time.
const CONCURRENCY: usize = 16;

/// Returns up to `most` due intents, or a few more. Leaves out partitions that do not answer.
///
/// # Errors
/// Fails when the physical partitions cannot be listed.
pub(super) async fn due(services: &Services, most: usize) -> cdb_client::Result<Vec<Intent>> {
    let delivery = &services.delivery;
    let due = probe::due(services, None, delivery.reconciler_interval).await;
    let due = due.unwrap_or(Due::Anywhere);
    if due.is_nothing() {
        return Ok(Vec::new());
    }
    let ranges = services.container().ranges().await?;
    let share = services.queues.shares.widest(ranges).await;
    let mut ranges = services
        .container()
        .health()
        .available(due.all_ranges(&share));
    delivery.search.rotate(&mut ranges);
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
    /// Returns the due intents of a physical partition.
    async fn range(&self, range: &RangeId) -> Result<Vec<Intent>> {
        let state = &self.services.delivery.search;
        let enough = u32::try_from(self.most / 2).unwrap_or(u32::MAX);
        let mut search = state.windows.search(range, enough);
        let query = self.query(range, search.from());
        let container = self.services.container();
        let run = container.query(query).in_range(range);
        let mut pages = run.page_size(search.page_size()).row_by_row().pages();
        let mut found = Vec::new();
        while search.reads_on() {
            let page = container.health().in_time(range, pages.next_page());
            for row in page.await?.unwrap_or_default() {
                let created_at = created_at(&row);
                let intent = self.accept(range, row).await;
                search.note(created_at, Runs::now_if(intent.is_some()));
                found.extend(intent);
            }
            if !pages.has_more() {
                search.complete();
            }
        }
        state.windows.finish(range, &search);
        Ok(found)
    }

    /// Returns the query for the due intents of a physical partition, oldest first.
    fn query(&self, range: &RangeId, from: Option<Timestamp>) -> Query<OutboxIntent> {
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

    /// Returns a found intent if this runtime delivers it now. Turns an undecodable one into a dead
    /// letter.
    async fn accept(
        &self,
        range: &RangeId,
        row: Result<Stored<OutboxIntent>, Unreadable>,
    ) -> Option<Intent> {
        match row {
            Ok(stored) => {
                let target = &stored.document.target_instance_id;
                let is_due =
                    self.has(range, &stored.document) && !self.services.is_unreachable(target);
                is_due.then_some(Intent::Found(stored))
            }
            Err(found) => {
                self.dead_letter_unreadable(range, &found).await;
                None
            }
        }
    }

    /// Returns whether an intent belongs to this runtime, or is overdue and taken over.
    fn has(&self, range: &RangeId, intent: &OutboxIntent) -> bool {
        let slot = dispatch_slot(&intent.instance_id);
        let due_at = intent.created_at + self.services.delivery.reconciler_age;
        let late_by = self.services.store.now().since(due_at);
        self.share.has(range, slot) || self.share.takes_over(slot, late_by)
    }

    /// Turns an undecodable intent into a dead letter with the reason, so that it does not block
    /// others.
    async fn dead_letter_unreadable(&self, range: &RangeId, found: &Unreadable) {
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
        if let Err(error) = store.container.patch_stored(&stored, &patch).await {
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
