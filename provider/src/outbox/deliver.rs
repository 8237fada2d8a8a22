//! From an intent to documents in the target's partition.
//!
//! Delivered means that every target document exists or existed. A batch of them carries a record of itself, whose id
//! is derived from the intent: a second delivery conflicts with it and changes nothing, also when the messages have
//! long been consumed.

use cdb_client::Error;
use cdb_model::limits::{MAX_BATCH_OPERATIONS, MAX_REQUEST_BYTES};
use cdb_model::{Batch, BatchError};
use duroxide::providers::WorkItem;
use futures::future::join_all;

use crate::documents::{
    Durable, InboxRecord, IntentItem, IntentQueue, OrchestratorItem, OutboxIntent, OutboxIntentKey,
    WorkerItem,
};
use crate::provider::Inner;

/// Why an intent was not delivered; it stays, and the reconciler tries again.
#[derive(Debug)]
pub(super) enum Undelivered {
    Unreadable(serde_json::Error),
    Unfit(BatchError),
    Failed(Error),
}

impl std::fmt::Display for Undelivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::Unfit(error) => error.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl From<serde_json::Error> for Undelivered {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// Delivers fresh intents. What fails is left to the reconciler.
pub(crate) async fn deliver_all(inner: &Inner, intents: Vec<OutboxIntent>) {
    let deliveries = intents.into_iter().map(|intent| async move {
        if let Err(error) = deliver(inner, &intent).await {
            tracing::warn!(
                instance = %intent.instance_id,
                target_instance = %intent.target_instance_id,
                %error,
                "messages were not delivered and will be tried again"
            );
            return;
        }
        // Nobody waits for the removal: a crash in between costs a second delivery, which changes nothing.
        inner.spawn(|inner| async move { remove(&inner, &intent).await });
    });
    join_all(deliveries).await;
}

/// Creates the documents of an intent and wakes who waits for them.
pub(super) async fn deliver(inner: &Inner, intent: &OutboxIntent) -> Result<(), Undelivered> {
    let documents = documents(inner, intent)?;
    let mut rest = &*documents;
    while !rest.is_empty() {
        let target = &*intent.target_instance_id;
        let part = (documents.len() - rest.len()) as u64;
        let mut batch = Batch::<Durable>::new(target);
        batch
            .create(&InboxRecord::new(target, &intent.idempotency_key, part))
            .map_err(Undelivered::Unfit)?;
        let mut count = 0;
        for document in rest {
            let full = batch.len() == MAX_BATCH_OPERATIONS
                || batch.size_bytes() + document.text_len() * 5 / 4 > MAX_REQUEST_BYTES;
            if count > 0 && full {
                break;
            }
            document.add_to(&mut batch).map_err(Undelivered::Unfit)?;
            count += 1;
        }
        match inner.container.execute(&batch).await {
            // The chunks are the same at every try, so a record that exists means that all of this one arrived.
            Err(error) if !error.is_conflict() => return Err(Undelivered::Failed(error)),
            _ => {}
        }
        rest = &rest[count..];
    }
    for document in &documents {
        document.announce(inner, intent);
    }
    Ok(())
}

/// Deletes a delivered intent.
pub(super) async fn remove(inner: &Inner, intent: &OutboxIntent) {
    let key = OutboxIntentKey::new(&*intent.instance_id, &*intent.idempotency_key);
    match inner.container.delete(&key).await {
        Err(error) if !error.is_not_found() => {
            tracing::debug!(%error, "delivered messages were not removed; the reconciler will");
        }
        _ => {}
    }
}

/// A document to create in the target's partition.
enum Delivery {
    Message(OrchestratorItem),
    Activity(WorkerItem),
}

impl Delivery {
    fn add_to(&self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        match self {
            Self::Message(item) => batch.create(item)?,
            Self::Activity(item) => batch.create(item)?,
        };
        Ok(())
    }

    fn text_len(&self) -> usize {
        match self {
            Self::Message(item) => item.work_item.len(),
            Self::Activity(item) => item.work_item.len(),
        }
    }

    fn announce(&self, inner: &Inner, intent: &OutboxIntent) {
        match self {
            Self::Message(item) => {
                let after = item.visible_at.since(inner.container.now());
                inner.hint_unknown(&intent.target_instance_id, item.execution_id, after);
            }
            Self::Activity(_) => inner.activities.quicken(),
        }
    }
}

fn documents(inner: &Inner, intent: &OutboxIntent) -> Result<Vec<Delivery>, serde_json::Error> {
    let mut documents = Vec::with_capacity(intent.items.len());
    for (number, item) in intent.items.iter().enumerate() {
        let cause = format!("{}-{number}", intent.idempotency_key);
        documents.push(document(inner, item, cause)?);
    }
    if let Some(payload) = &intent.payload {
        // Written by `duroxide-cdb`: the text of the whole target document, of which the work item is all we need.
        let legacy: LegacyPayload = serde_json::from_str(payload)?;
        let item: WorkItem = serde_json::from_str(&legacy.work_item)?;
        let item = IntentItem {
            queue: match item {
                WorkItem::ActivityExecute { .. } => IntentQueue::Worker,
                _ => IntentQueue::Orchestrator,
            },
            work_item: legacy.work_item,
            visible_at: legacy.visible_at,
        };
        documents.push(document(inner, &item, intent.idempotency_key.clone())?);
    }
    Ok(documents)
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyPayload {
    work_item: String,
    visible_at: cdb_model::Timestamp,
}

fn document(
    inner: &Inner,
    item: &IntentItem,
    cause: String,
) -> Result<Delivery, serde_json::Error> {
    let work_item: WorkItem = serde_json::from_str(&item.work_item)?;
    let now = inner.enqueue_time();
    if item.queue == IntentQueue::Worker
        && let Some(worker) = WorkerItem::new(&work_item, now)?
    {
        return Ok(Delivery::Activity(worker));
    }
    OrchestratorItem::new(&work_item, cause, item.visible_at, now).map(Delivery::Message)
}
