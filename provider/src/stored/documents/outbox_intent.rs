//! The outbox: messages to other instances, committed with the turn that sends them and delivered
//! afterwards.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

use super::chunk::{Chunked, Text};
use super::labels::Labels;
use crate::timing::REDELIVERED;

/// All messages of one turn to one instance. The intent is delivered when every target document
/// exists.
///
/// ```
/// use cdb_provider::documents::{NEVER, OutboxIntent};
/// use cdb_provider::model::{Document as _, Query};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let refused = OutboxIntent {
/// #     failure: Some("request too large".to_owned()),
/// #     ..OutboxIntent::new("order-7", "turn-3".to_owned(), "stock", NEVER)
/// # };
/// # store.container().run(refused.create()).await?;
/// // Retries the dead letters for `stock`, now that they can be delivered.
/// for intent in store.undeliverable(100).await? {
///     if intent.document.target_instance_id == "stock" {
///         store.deliver_again(&intent).await?;
///     }
/// }
/// let given_up = Query::<OutboxIntent>::across_partitions().filter(OutboxIntent::CREATED_AT.ge(NEVER));
/// assert!(store.container().query(given_up).first().await?.is_none());
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
#[document(type = "outbox_intent", id = "{instance_id}:intent:{idempotency_key}")]
#[document(composite(BY_CREATED = r#type, created_at))]
pub struct OutboxIntent {
    /// The sending instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// The key, unique per turn and target. The ids of the target documents are derived from it.
    pub idempotency_key: String,
    /// The receiving instance.
    pub target_instance_id: String,
    /// The messages, in order.
    #[document(unindexed)]
    #[serde(default)]
    pub items: Vec<IntentItem>,
    /// More messages, for any targets: a JSON array of [`IntentItem`]s that is too large for the
    /// document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<Chunked>,
    /// Activities of the sender that the turn has cancelled. Delivery deletes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<CancelledActivities>,
    /// A whole target document as JSON text, in intents written by `duroxide-cdb`.
    #[document(unindexed)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// The time of the commit. The reconciler delivers intents older than its threshold. Each
    /// refused delivery moves the time to the next attempt, and the last one to
    /// [`NEVER`](super::NEVER).
    #[document(index)]
    pub created_at: Timestamp,
    /// The time of the commit, from the first refused delivery on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed_at: Option<Timestamp>,
    /// The number of refused deliveries.
    #[serde(default)]
    pub attempt_count: u32,
    /// The reason of the last refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The creation of the sender, for the children that it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_created_at: Option<Timestamp>,
    /// The creation of the sender's parent, for the end that it sends to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_created_at: Option<Timestamp>,
    /// What limits select the activities of the intent by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
}

impl OutboxIntent {
    /// Creates an intent without messages.
    pub fn new(instance_id: &str, idempotency_key: String, target: &str, now: Timestamp) -> Self {
        Self {
            instance_id: instance_id.to_owned(),
            idempotency_key,
            target_instance_id: target.to_owned(),
            created_at: now,
            ..Self::default()
        }
    }

    /// Returns the time of the commit, or of the last redelivery by an operator.
    pub(crate) fn commit_time(&self) -> Timestamp {
        let moved = self.committed_at.filter(|_| self.attempt_count > 0);
        moved.unwrap_or(self.created_at)
    }

    /// Returns whether the traces of an earlier delivery may be gone. Cancellations need no traces.
    pub(crate) fn is_too_old(&self, now: Timestamp) -> bool {
        let has_messages = !self.items.is_empty() || self.more.is_some() || self.payload.is_some();
        has_messages && now.since(self.commit_time()) > REDELIVERED
    }

    /// Returns whether the intent or one of its messages is stored in chunks.
    pub(crate) fn has_chunks(&self) -> bool {
        let mut items = self.items.iter();
        self.more.is_some() || items.any(|item| item.work_item.chunked().is_some())
    }
}

/// Cancelled activities of one execution, by the ids of the events that scheduled them.
///
/// ```
/// use cdb_provider::documents::{CancelledActivities, WorkerItemKey};
/// use cdb_provider::model::DocumentKey;
///
/// let cancelled = CancelledActivities { execution_id: 1, small: vec![2, 3], large: vec![5] };
/// // The documents that the delivery deletes.
/// let events = cancelled.small.iter().chain(&cancelled.large);
/// let keys: Vec<_> = events.map(|event| WorkerItemKey::new("order-7", cancelled.execution_id, *event)).collect();
/// assert_eq!(keys[2].to_id()?.as_str(), "order-7:work:1:5");
/// # Ok::<(), cdb_provider::model::value::IdError>(())
/// ```
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct CancelledActivities {
    /// The execution.
    pub execution_id: u64,
    /// Activities whose input is inline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub small: Vec<u64>,
    /// Activities whose input may be in chunks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub large: Vec<u64>,
}

/// One message of an intent.
///
/// ```
/// use cdb_provider::documents::{IntentItem, IntentQueue, Text};
/// use duroxide::providers::WorkItem;
///
/// # let cancel = WorkItem::CancelInstance { instance: "order-7::sub::2".to_owned(), reason: "parent failed".to_owned() };
/// # let text = serde_json::to_string(&cancel)?;
/// # let item = IntentItem { queue: IntentQueue::Orchestrator, work_item: Text::Inline(text), visible_at: cdb_provider::documents::FIRST_DUE };
/// // The header identifies a message of any size, and its target.
/// let message: WorkItem = serde_json::from_str(item.work_item.header())?;
/// assert!(matches!(message, WorkItem::CancelInstance { instance, .. } if instance == "order-7::sub::2"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct IntentItem {
    /// The queue of the message.
    pub queue: IntentQueue,
    /// The message, as JSON text. Its chunks, if any, are already in the partition of the target.
    pub work_item: Text,
    /// The time from which on the message is visible.
    pub visible_at: Timestamp,
}

/// The queue that a message goes to.
///
/// ```
/// use cdb_provider::documents::{IntentItem, IntentQueue};
///
/// let items: Vec<IntentItem> = serde_json::from_str(
///     r#"[{"queue": "worker", "workItem": "…", "visibleAt": 0}, {"queue": "orchestrator", "workItem": "…", "visibleAt": 0}]"#,
/// )?;
/// let activities = items.iter().filter(|item| item.queue == IntentQueue::Worker).count();
/// assert_eq!(activities, 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum IntentQueue {
    /// The orchestrator queue.
    Orchestrator,
    /// The worker queue.
    Worker,
}
