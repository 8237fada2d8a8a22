//! Polls of the orchestrator queue.

use std::hash::BuildHasher as _;

use cdb_model::{Query, Stored, Unreadable};
use tokio::time::Instant;

use crate::documents::{OrchestratorItem, Partial, dispatch_slot};
use crate::error::Result;
use crate::instances::{Message, Readiness};
use crate::local_queue::PollNumber;
use crate::poll::{PollResult, PollScope, PolledQueue, idle_probe};
use crate::services::Services;

/// Starts a poll that serves all dispatchers of this process.
pub(super) fn start(services: &Services, number: PollNumber) {
    if services.tasks.is_closing() {
        return;
    }
    services.spawn(move |services| async move {
        let queue = services.instances().local();
        let polling = queue.polling();
        let interval = queue.with(|queue, _| queue.poll_interval());
        let poll = poll(&services, number);
        match idle_probe::unless_idle(&services, interval, poll).await {
            Ok(found) => {
                if found.is_empty() {
                    queue.with(|queue, now| queue.finish_poll(number, &[], |_| true, now));
                }
                polling.finish(!found.is_empty());
            }
            Err(error) => tracing::warn!(%error, "cannot poll the orchestrator queue"),
        }
    });
}

/// Queries every physical partition for its first due messages. Returns their instances.
pub(super) async fn poll(services: &Services, number: PollNumber) -> Result<Vec<String>> {
    let scope = services
        .queues
        .scope
        .of_poll(PolledQueue::Orchestrations)
        .await;
    if scope.is_empty() {
        return Ok(Vec::new());
    }
    let (visible_at, slot) = (
        OrchestratorItem::VISIBLE_AT,
        OrchestratorItem::DISPATCH_SLOT,
    );
    let window = &services.queues.instance_polls;
    let request = window.next_request();
    let due = scope.due(visible_at, slot, request.from, services.store.now());
    let query = Query::<OrchestratorItem>::across_partitions()
        .filter(due)
        .order_by(OrchestratorItem::BY_DUE.asc())
        .top(request.rows);
    let sent_at = Instant::now();
    let rows = services.container().query(query).row_by_row().all().await?;
    let mut result = PollResult::of(&rows, OrchestratorItem::VISIBLE_AT, |item| item.visible_at);
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let (instance_id, readiness) = note(services, number, row, sent_at);
        result.unusable += usize::from(readiness != Readiness::Ready);
        found.extend(instance_id);
    }
    window.note(request, result);
    sort(services, &scope, &mut found);
    found.dedup();
    let queue = services.instances().local();
    queue.with(|queue, now| queue.finish_poll(number, &found, |_| true, now));
    Ok(found)
}

/// Sorts the instances that a poll has found.
///
/// Runtimes find the same messages, and race for locks if they start with the same instances. So
/// each runtime starts with its cached instances, then those of its slots, each in an order of its
/// own. Instances that it could not process before come last.
fn sort(services: &Services, scope: &PollScope, instances: &mut [String]) {
    instances.sort_by_cached_key(|id| {
        let (is_unfit, is_cached) = services.instances().preference(id);
        let is_foreign = !scope.is_own(dispatch_slot(id));
        let hash = services.queues.scatter.hash_one(id);
        (is_unfit, !is_cached, is_foreign, hash)
    });
}

/// Notes one due message. Returns its instance, if it can be processed, and the classification.
fn note(
    services: &Services,
    number: PollNumber,
    row: Result<Stored<OrchestratorItem>, Unreadable>,
    sent_at: Instant,
) -> (Option<String>, Readiness) {
    let readable = row.or_else(|found| {
        services.store.corrupt_documents.report(&found);
        // Without an instance id the message stays where it is, and the poll skips it.
        OrchestratorItem::partial_stored(&found).ok_or(())
    });
    let Ok(stored) = readable else {
        return (None, Readiness::Backoff);
    };
    let instance_id = stored.document.instance_id.clone();
    let message = Message::read(stored, sent_at);
    let readiness = services.instances().found(number, message);
    (
        (readiness != Readiness::Backoff).then_some(instance_id),
        readiness,
    )
}
