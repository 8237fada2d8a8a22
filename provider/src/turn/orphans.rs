//! Messages of an instance that is not there.
//!
//! Which of them can still be meant for one that comes: duroxide lets everything overtake a start but queued events, which
//! are dropped (provider guide, "Work Queues"), and its own store keeps the others for ever. Here they end: ends of what a
//! deleted instance had begun at once, everything else after `unclaimed_age`, unless the start is queued for later.

use cdb_model::{Batch, Query};
use duroxide::providers::WorkItem;
use metrics::counter;

use super::load::Loaded;
use crate::documents::{Durable, NEVER, OrchestratorItem};
use crate::error::Result;
use crate::history;
use crate::services::Services;
use crate::spill::ConsumedChunks;
use crate::store::Store;

/// Whether nobody will ever take these messages.
pub(super) async fn are_orphaned(store: &Store, loaded: &Loaded) -> Result<bool> {
    if only_queue_messages(loaded) {
        return Ok(true);
    }
    // Nobody else would ever take ends of what a deleted instance had begun.
    if only_ends(loaded) && !exists(store, &loaded.instance_id).await? {
        return Ok(true);
    }
    let old = store.now() - store.unclaimed_age;
    let mut times = loaded.messages.iter();
    let all_old = times.all(|message| message.stored.document.enqueued_at < old);
    Ok(all_old
        && !exists(store, &loaded.instance_id).await?
        && !is_expected(store, &loaded.instance_id).await?)
}

fn only_queue_messages(loaded: &Loaded) -> bool {
    let mut items = loaded.messages.iter().map(|message| message.content.item());
    items.all(|item| matches!(item, Some(WorkItem::QueueMessage { .. })))
}

/// Whether nothing waits but what somebody must have been started for: ends of activities, of sub-orchestrations and of
/// timers.
fn only_ends(loaded: &Loaded) -> bool {
    let mut items = loaded.messages.iter().map(|message| message.content.item());
    items.all(|item| {
        matches!(
            item,
            Some(
                WorkItem::ActivityCompleted { .. }
                    | WorkItem::ActivityFailed { .. }
                    | WorkItem::SubOrchCompleted { .. }
                    | WorkItem::SubOrchFailed { .. }
                    | WorkItem::TimerFired { .. }
            )
        )
    })
}

/// Whether the instance exists as the service knows it, not as one of its replicas does.
async fn exists(store: &Store, instance_id: &str) -> Result<bool> {
    let latest = store.container.latest_committed();
    let found = history::read_instance(&latest, instance_id).await?;
    Ok(found.is_some())
}

/// Whether something is queued for later, as a delayed start.
async fn is_expected(store: &Store, instance_id: &str) -> Result<bool> {
    let later =
        OrchestratorItem::VISIBLE_AT.gt(store.now()) & OrchestratorItem::VISIBLE_AT.lt(NEVER);
    let later = Query::<OrchestratorItem>::in_partition(instance_id).filter(later);
    let counts = store.container.query(later.count()).all().await?;
    Ok(counts.iter().sum::<u64>() > 0)
}

/// Deletes messages that no orchestration will ever receive.
pub(super) async fn drop_all(services: &Services, loaded: &Loaded) -> Result<()> {
    tracing::warn!(
        instance = %loaded.instance_id,
        messages = loaded.messages.len(),
        "dropping messages of an orchestration that is not there"
    );
    let mut batch = Batch::<Durable>::new(&*loaded.instance_id);
    for message in &loaded.messages {
        batch.delete_stored(&message.stored)?;
    }
    let texts = loaded.messages.iter();
    let texts = texts.map(|message| &message.stored.document.work_item);
    let consumed_chunks = ConsumedChunks::of(&loaded.instance_id, services.store.now(), texts);
    if let Some(consumed_chunks) = &consumed_chunks {
        consumed_chunks.add_to(&mut batch)?;
    }
    match services.container().execute(&batch).await {
        // Somebody else dropped or delivered them meanwhile.
        Err(error) if error.is_not_found() || error.is_precondition_failed() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            counter!("cdb.provider.messages.dropped").increment(loaded.messages.len() as u64);
            if let Some(consumed_chunks) = consumed_chunks {
                consumed_chunks.remove(services);
            }
            Ok(())
        }
    }
}
