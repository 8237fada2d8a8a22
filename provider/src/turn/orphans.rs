//! Orphaned messages: messages for an instance that does not exist.
//!
//! Any message may overtake the start of its instance: a start may wait in an intent of the parent,
//! or be delayed. duroxide's guide asks providers to delete queued events without a start at once;
//! this provider keeps them like all other messages, because a start may be redelivered for
//! `REDELIVERED`. A message is an orphan after `unclaimed_age`, unless another one is queued for
//! later, such as a delayed start. Completions are orphans at once: their instance existed before.
//! So is the cancellation of a child whose start is not on its way: the child has existed, or never
//! starts, and the cancellation must not meet the next instance of that id.

use std::collections::BTreeSet;

use cdb_model::{Batch, Query};
use duroxide::providers::WorkItem;
use metrics::counter;

use super::loaded::Loaded;
use crate::delivery;
use crate::error::Result;
use crate::queue::Services;
use crate::queue::instances::Message;
use crate::stored::documents::{Durable, NEVER, OrchestratorItem};
use crate::stored::spill::ConsumedChunks;
use crate::stored::{Store, history};

/// Returns the loaded messages that no instance will receive.
pub(super) async fn among(store: &Store, loaded: &Loaded) -> Result<Vec<Message>> {
    let old = store.now() - store.unclaimed_age;
    let is_old = |message: &Message| message.stored.document.enqueued_at < old;
    let late = cancelled_late(store, loaded).await?;
    let is_late = |message: &Message| message.canceller().is_some_and(|by| late.contains(by));
    let is_orphan = |message: &Message| is_completion(message) || is_late(message);
    let mut orphaned = loaded.messages.clone();
    orphaned.retain(|message| is_orphan(message) || is_old(message));
    if orphaned.is_empty() || exists(store, &loaded.instance_id).await? {
        return Ok(Vec::new());
    }
    if orphaned.iter().any(is_old) && has_later_message(store, loaded).await? {
        orphaned.retain(is_orphan);
    }
    Ok(orphaned)
}

/// Returns the instances that have cancelled this one and do not start it: neither their intents nor the
/// queue has a start. The caller looks for the instance afterwards.
async fn cancelled_late(store: &Store, loaded: &Loaded) -> Result<BTreeSet<String>> {
    let by = loaded.messages.iter().filter_map(Message::canceller);
    let mut by: BTreeSet<String> = by.map(str::to_owned).collect();
    let latest = store.container.latest_committed();
    for parent in by.clone() {
        if delivery::is_start_sent(&latest, &parent, &loaded.instance_id).await? {
            by.remove(&parent);
        }
    }
    if !by.is_empty()
        && !delivery::queued_starts(&latest, &loaded.instance_id)
            .await?
            .is_empty()
    {
        by.clear();
    }
    Ok(by)
}

/// Returns whether a message completes an activity, a sub-orchestration or a timer.
fn is_completion(message: &Message) -> bool {
    matches!(
        message.content.item(),
        Some(
            WorkItem::ActivityCompleted { .. }
                | WorkItem::ActivityFailed { .. }
                | WorkItem::SubOrchCompleted { .. }
                | WorkItem::SubOrchFailed { .. }
                | WorkItem::TimerFired { .. }
        )
    )
}

/// Returns whether the instance exists, by a read that does not depend on one replica.
async fn exists(store: &Store, instance_id: &str) -> Result<bool> {
    let latest = store.container.latest_committed();
    let found = history::read_instance(&latest, instance_id).await?;
    Ok(found.is_some())
}

/// Returns whether a message becomes due after the load, such as a delayed start. One that became
/// due since the load counts too.
async fn has_later_message(store: &Store, loaded: &Loaded) -> Result<bool> {
    let later =
        OrchestratorItem::VISIBLE_AT.gt(loaded.due_at) & OrchestratorItem::VISIBLE_AT.lt(NEVER);
    let later = Query::<OrchestratorItem>::in_partition(&*loaded.instance_id).filter(later);
    let latest = store.container.latest_committed();
    let counts = latest.query(later.count()).all().await?;
    Ok(counts.iter().sum::<u64>() > 0)
}

/// Deletes messages that no instance will receive.
pub(super) async fn delete(
    services: &Services,
    instance_id: &str,
    messages: &[Message],
) -> Result<()> {
    tracing::warn!(
        instance = instance_id,
        messages = messages.len(),
        "deleting messages of an instance that does not exist"
    );
    let mut batch = Batch::<Durable>::new(instance_id);
    for message in messages {
        batch.add(message.stored.delete())?;
    }
    let texts = messages.iter();
    let texts = texts.map(|message| &message.stored.document.work_item);
    let consumed_chunks = ConsumedChunks::of(instance_id, services.store.now(), texts);
    consumed_chunks.add_to(&mut batch)?;
    match services.container().execute(&batch).await {
        // Another runtime has deleted or consumed the messages.
        Err(error) if error.is_not_found() || error.is_precondition_failed() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            counter!("cdb.provider.messages.dropped").increment(messages.len() as u64);
            consumed_chunks.remove(&services.store);
            Ok(())
        }
    }
}
