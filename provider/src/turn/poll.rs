//! Polls of the orchestrator queue.

use std::hash::BuildHasher as _;

use cdb_model::{Query, Stored, Unreadable};
use tokio::time::Instant;

use crate::documents::{OrchestratorItem, Partial, dispatch_slot};
use crate::error::Result;
use crate::instances::{Message, Outlook};
use crate::local_queue::PollNumber;
use crate::poll::{PolledQueue, Seen, idle_probe};
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
            Err(error) => tracing::warn!(%error, "the orchestrator queue cannot be polled"),
        }
    });
}

/// Asks every physical partition for its first due messages. Returns their instances.
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
    let look = window.look();
    let due = scope.due(visible_at, slot, (look.from, services.store.now()));
    let query = Query::<OrchestratorItem>::across_partitions()
        .filter(due)
        .order_by(OrchestratorItem::BY_DUE.asc())
        .top(look.rows);
    let asked_at = Instant::now();
    let rows = services.container().query(query).row_by_row().all().await?;
    let mut seen = Seen::of(&rows, OrchestratorItem::VISIBLE_AT, |item| item.visible_at);
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let (instance_id, outlook) = note(services, number, row, asked_at);
        seen.unusable += usize::from(outlook != Outlook::Work);
        found.extend(instance_id);
    }
    window.note(look, seen);
    // Runtimes find the same messages, and race for the same locks if they begin with the same. So each begins with the
    // instances that it has cached, then those of its slots, each in an order of its own, and ends with those that it could
    // not work on before.
    found.sort_by_cached_key(|id| {
        let (is_unfit, is_cached) = services.instances().preference(id);
        let is_foreign = !scope.is_own(dispatch_slot(id));
        (
            is_unfit,
            !is_cached,
            is_foreign,
            services.queues.scatter.hash_one(id),
        )
    });
    found.dedup();
    let queue = services.instances().local();
    queue.with(|queue, now| queue.finish_poll(number, &found, |_| true, now));
    Ok(found)
}

/// Notes one due message. Returns its instance, if there is something to do.
fn note(
    services: &Services,
    number: PollNumber,
    row: Result<Stored<OrchestratorItem>, Unreadable>,
    asked_at: Instant,
) -> (Option<String>, Outlook) {
    let readable = row.or_else(|found| {
        services.store.corrupt_documents.report(&found);
        // Without an instance it stays where it is, and is looked history.
        OrchestratorItem::partial_stored(&found).ok_or(())
    });
    let Ok(stored) = readable else {
        return (None, Outlook::Nothing);
    };
    let instance_id = stored.document.instance_id.clone();
    let message = Message::read(stored, asked_at);
    let outlook = services.instances().found(number, message);
    (
        (outlook != Outlook::Nothing).then_some(instance_id),
        outlook,
    )
}
