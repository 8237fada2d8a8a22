//! Messages to other instances, committed with the turn that sends them and delivered afterwards.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Chunked, Text};

/// All messages of one turn to one instance. Delivered means: every target document exists.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "outbox_intent", id = "{instance_id}:intent:{idempotency_key}")]
#[document(composite(BY_CREATED = r#type, created_at))]
pub struct OutboxIntent {
    /// The instance that sends.
    #[document(partition_key)]
    pub instance_id: String,
    /// Unique per turn and target; the ids of the target documents are derived from it.
    pub idempotency_key: String,
    /// The instance that receives.
    pub target_instance_id: String,
    /// The messages, in order.
    #[document(unindexed)]
    #[serde(default)]
    pub items: Vec<IntentItem>,
    /// More messages, for any targets: a JSON array of [`IntentItem`]s that is too large for the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<Chunked>,
    /// Activities of the sender that the turn has cancelled: delivered means that they are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<CancelledActivities>,
    /// A whole target document as JSON text, in intents written by `duroxide-cdb`.
    #[document(unindexed)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// When the turn was committed. The reconciler delivers what is older than its threshold. Moved on by every delivery
    /// that was refused, to when the next one is due, and in the end to [`NEVER`](super::NEVER).
    #[document(index)]
    pub created_at: Timestamp,
    /// How often a delivery was refused.
    #[serde(default)]
    pub attempt_count: u32,
    /// Why the last one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl OutboxIntent {
    /// An intent that holds nothing yet.
    pub fn new(instance_id: &str, idempotency_key: String, target: &str, now: Timestamp) -> Self {
        Self {
            instance_id: instance_id.to_owned(),
            idempotency_key,
            target_instance_id: target.to_owned(),
            items: Vec::new(),
            more: None,
            cancelled: Vec::new(),
            payload: None,
            created_at: now,
            attempt_count: 0,
            failure: None,
        }
    }
}

/// Activities of one execution, by the events that scheduled them.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct CancelledActivities {
    /// The execution.
    pub execution_id: u64,
    /// Those whose input is in their document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub small: Vec<u64>,
    /// Those whose input may be in chunks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub large: Vec<u64>,
}

/// One message of an intent.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct IntentItem {
    /// Which queue it goes to.
    pub queue: IntentQueue,
    /// The message, as JSON text. Its chunks, if it has any, are in the partition of its target already.
    pub work_item: Text,
    /// Not before this time.
    pub visible_at: Timestamp,
}

/// The queue that a message goes to.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum IntentQueue {
    /// The orchestrator queue.
    Orchestrator,
    /// The worker queue.
    Worker,
}
