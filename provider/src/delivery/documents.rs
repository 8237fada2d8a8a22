//! The documents that an intent creates in the partition of its target.

use cdb_client::ContainerClient;
use cdb_model::Timestamp;
use duroxide::providers::WorkItem;

use crate::error::Result;
use crate::stored::documents::{
    Durable, IntentItem, IntentQueue, Labels, OrchestratorItem, OutboxIntent, Text, WorkerItem,
};
use crate::stored::spill;

/// The documents of an intent.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    pub(crate) messages: Vec<(OrchestratorItem, WorkItem)>,
    pub(super) activities: Vec<WorkerItem>,
}

impl Documents {
    /// Creates the documents of an intent of this crate or of `duroxide-cdb`.
    pub(crate) async fn of(
        container: &ContainerClient<Durable>,
        intent: &OutboxIntent,
    ) -> Result<Self> {
        let mut documents = Self::default();
        let sender = &intent.instance_id;
        let labels = &intent.labels.clone().unwrap_or_default();
        let more = more_items(container, intent).await?;
        for (number, item) in intent.items.iter().chain(&more).enumerate() {
            let cause = format!("{}-{number}", intent.idempotency_key);
            documents.add(container.now(), item, cause, labels)?;
        }
        if let Some(payload) = &intent.payload {
            let item = legacy_item(payload)?;
            documents.add(
                container.now(),
                &item,
                intent.idempotency_key.clone(),
                labels,
            )?;
        }
        for (message, item) in &mut documents.messages {
            match item {
                WorkItem::CancelInstance { .. } => message.cancelled_by = Some(sender.clone()),
                WorkItem::StartOrchestration {
                    parent_instance: Some(parent),
                    ..
                } if parent == sender => message.parent_created_at = intent.sender_created_at,
                WorkItem::SubOrchCompleted { .. } | WorkItem::SubOrchFailed { .. } => {
                    message.parent_created_at = intent.parent_created_at;
                }
                _ => {}
            }
        }
        Ok(documents)
    }

    fn add(
        &mut self,
        now: Timestamp,
        item: &IntentItem,
        cause: String,
        labels: &Labels,
    ) -> Result<(), serde_json::Error> {
        let work_item: WorkItem = serde_json::from_str(item.work_item.header())?;
        if item.queue == IntentQueue::Worker
            && let Some(worker) = WorkerItem::new(&work_item, now)?
        {
            self.activities.push(WorkerItem {
                work_item: item.work_item.clone(),
                ..worker.with_labels(labels)
            });
            return Ok(());
        }
        let message = OrchestratorItem {
            delivered: true,
            work_item: item.work_item.clone(),
            ..OrchestratorItem::new(&work_item, cause, item.visible_at, now)?
        };
        self.messages.push((message, work_item));
        Ok(())
    }
}

/// Converts the payload of an intent of `duroxide-cdb`. The payload is the whole target document;
/// only its work item is needed.
fn legacy_item(payload: &str) -> Result<IntentItem, serde_json::Error> {
    let legacy: LegacyPayload = serde_json::from_str(payload)?;
    let item: WorkItem = serde_json::from_str(&legacy.work_item)?;
    Ok(IntentItem {
        queue: match item {
            WorkItem::ActivityExecute { .. } => IntentQueue::Worker,
            _ => IntentQueue::Orchestrator,
        },
        work_item: Text::Inline(legacy.work_item),
        visible_at: legacy.visible_at,
    })
}

/// Reads the items of an intent that are stored in chunks.
async fn more_items(
    container: &ContainerClient<Durable>,
    intent: &OutboxIntent,
) -> Result<Vec<IntentItem>> {
    let Some(more) = &intent.more else {
        return Ok(Vec::new());
    };
    let text = Text::Chunked(more.clone());
    let text = spill::read(container, text).await?;
    Ok(serde_json::from_str(&text)?)
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyPayload {
    work_item: String,
    visible_at: Timestamp,
}
