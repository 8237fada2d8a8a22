//! Orphaned messages: messages for an instance that does not exist.
//!
//! duroxide lets all messages except queued events overtake a start (provider guide, "Work
//! Queues"); its own store keeps them forever. This provider deletes queued events and completions
//! for a deleted instance at once. It deletes other messages after `unclaimed_age`, unless the
//! start is queued for later.

use cdb_model::{Batch, Query};
use duroxide::providers::WorkItem;
use metrics::counter;

use super::load::Loaded;
use crate::error::Result;
use crate::queue::Services;
use crate::stored::documents::{Durable, NEVER, OrchestratorItem};
use crate::stored::spill::ConsumedChunks;
use crate::stored::{Store, history};

/// Returns whether no instance will ever receive these messages.
pub(super) async fn are_orphaned(store: &Store, loaded: &Loaded) -> Result<bool> {
    if only_queue_messages(loaded) {
        return Ok(true);
    }
    // Completions belong to an instance that existed before.
    if only_completions(loaded) && !exists(store, &loaded.instance_id).await? {
        return Ok(true);
    }
    let old = store.now() - store.unclaimed_age;
    let mut times = loaded.messages.iter();
    let all_old = times.all(|message| message.stored.document.enqueued_at < old);
    Ok(all_old
        && !exists(store, &loaded.instance_id).await?
        && !has_delayed_message(store, &loaded.instance_id).await?)
}

fn only_queue_messages(loaded: &Loaded) -> bool {
    let mut items = loaded.messages.iter().map(|message| message.content.item());
    items.all(|item| matches!(item, Some(WorkItem::QueueMessage { .. })))
}

/// Returns whether all messages are completions, of activities, sub-orchestrations or timers.
fn only_completions(loaded: &Loaded) -> bool {
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

/// Returns whether the instance exists, by a read that does not depend on one replica.
async fn exists(store: &Store, instance_id: &str) -> Result<bool> {
    let latest = store.container.latest_committed();
    let found = history::read_instance(&latest, instance_id).await?;
    Ok(found.is_some())
}

/// Returns whether a message is queued for later, such as a delayed start.
async fn has_delayed_message(store: &Store, instance_id: &str) -> Result<bool> {
    let later =
        OrchestratorItem::VISIBLE_AT.gt(store.now()) & OrchestratorItem::VISIBLE_AT.lt(NEVER);
    let later = Query::<OrchestratorItem>::in_partition(instance_id).filter(later);
    let counts = store.container.query(later.count()).all().await?;
    Ok(counts.iter().sum::<u64>() > 0)
}

/// Deletes messages that no orchestration will receive.
pub(super) async fn drop_all(services: &Services, loaded: &Loaded) -> Result<()> {
    tracing::warn!(
        instance = %loaded.instance_id,
        messages = loaded.messages.len(),
        "deleting messages of an instance that does not exist"
    );
    let mut batch = Batch::<Durable>::new(&*loaded.instance_id);
    for message in &loaded.messages {
        batch.add(message.stored.delete())?;
    }
    let texts = loaded.messages.iter();
    let texts = texts.map(|message| &message.stored.document.work_item);
    let consumed_chunks = ConsumedChunks::of(&loaded.instance_id, services.store.now(), texts);
    consumed_chunks.add_to(&mut batch)?;
    match services.container().execute(&batch).await {
        // Another runtime has deleted or consumed the messages.
        Err(error) if error.is_not_found() || error.is_precondition_failed() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            counter!("cdb.provider.messages.dropped").increment(loaded.messages.len() as u64);
            consumed_chunks.remove(&services.store);
            Ok(())
        }
    }
}
