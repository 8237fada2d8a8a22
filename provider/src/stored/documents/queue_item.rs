//! The items of the two queues. An item is stored in the partition of its target instance.
//!
//! The id of an item is derived from its cause, if it has one, so that a repeated write stores one
//! item.

use cdb_coordination::lease::Lockable;
use cdb_model::document::{Fixed, Indexed, Path};
use cdb_model::{Document, Timestamp};
use duroxide::ErrorDetails;
use duroxide::providers::WorkItem;
use serde::{Deserialize, Serialize};

use super::chunk::Text;
use super::instance::OperatorAction;
use super::labels::Labels;
use super::trace::{NEVER, REMEMBERED_SECONDS};
use crate::timing::MESSAGE_RESERVED;

/// A message for an orchestration. The lock of its instance decides which dispatcher handles it.
///
/// ```
/// use cdb_provider::documents::{FIRST_DUE, OrchestratorItem, dispatch_slot};
/// use cdb_provider::model::Query;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let client = duroxide::Client::new(std::sync::Arc::new(store.clone()));
/// client.start_orchestration("order-7", "Order", "{}").await?;
///
/// // Counts the due messages in the slot of `order-7`.
/// let now = store.container().now();
/// let due = OrchestratorItem::DISPATCH_SLOT.eq(dispatch_slot("order-7"))
///     & OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, now);
/// let counts = store.container().query(Query::across_partitions().filter(due).count()).all().await?;
/// assert_eq!(counts.into_iter().sum::<u64>(), 1); // one count per physical partition
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
#[document(type = "orch_queue", id = "{instance_id}:orch:{cause}")]
#[document(composite(BY_DUE = r#type, visible_at))]
pub struct OrchestratorItem {
    /// The receiving instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// The cause, unique within the instance. Empty on items of `duroxide-cdb`, whose ids are
    /// random.
    #[serde(default)]
    pub cause: String,
    /// The message, as JSON text.
    #[document(unindexed)]
    pub work_item: Text,
    /// The dispatch slot of the instance, see [`dispatch_slot`].
    #[document(index)]
    pub dispatch_slot: u8,
    /// The time from which on the message is visible.
    #[document(index)]
    pub visible_at: Timestamp,
    /// The time of the write. Orders messages that became visible together.
    pub enqueued_at: Timestamp,
    /// The execution that receives the message, if the message names one.
    #[serde(default)]
    pub execution_id: Option<u64>,
    /// The fetches counted by `duroxide-cdb`. This crate counts fetches in the instance.
    #[serde(default)]
    pub attempt_count: u32,
    /// Whether `visible_at` only hides the message from other runtimes for a moment. For the
    /// runtime that wrote it, the message is due.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved: bool,
    /// Whether the message may be delivered again, as one from an intent or a client. Consuming it
    /// then leaves a trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delivered: bool,
    /// The operator's change that starts the instance with this message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OperatorAction>,
    /// The time at which it becomes visible once its paused instance is resumed. Until then,
    /// `visible_at` is [`PAUSED`](super::PAUSED).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Timestamp>,
    /// The instance that has sent a cancellation of its child. Missing on cancellations of clients and
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<String>,
    /// The creation of the parent: of the one that starts the child by this message, or of the one to
    /// which this end of its child belongs. Missing on messages of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_created_at: Option<Timestamp>,
    /// The request units of the activity that the message completes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_units: Option<f64>,
    /// The seconds until the service deletes the trace of a consumed message. A container without a
    /// time to live, as `duroxide-cdb` creates it, keeps the trace until its instance is deleted.
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
}

impl OrchestratorItem {
    /// The time of the last write by the service, in seconds. Every container indexes it.
    pub(crate) const WRITTEN_AT: Path<Self, u64, Indexed, Fixed> = Path::new("/_ts");

    /// Creates a message for the instance that `item` names.
    ///
    /// # Errors
    /// Fails when the message cannot be written as JSON.
    pub fn new(
        item: &WorkItem,
        cause: String,
        visible_at: Timestamp,
        enqueued_at: Timestamp,
    ) -> Result<Self, serde_json::Error> {
        let instance_id = target_instance(item).to_owned();
        Ok(Self {
            cause,
            work_item: Text::Inline(serde_json::to_string(item)?),
            dispatch_slot: dispatch_slot(&instance_id),
            visible_at,
            enqueued_at,
            execution_id: execution_of(item),
            instance_id,
            ..Self::default()
        })
    }

    /// Reserves a due message for the runtime that writes it. Returns any other message unchanged.
    pub(crate) fn reserved(self, now: Timestamp) -> Self {
        if self.visible_at > now {
            return self;
        }
        Self {
            reserved: true,
            visible_at: now + MESSAGE_RESERVED,
            ..self
        }
    }

    /// Returns the end of the reservation; `None` without one.
    pub(crate) fn reserved_until(&self) -> Option<Timestamp> {
        self.reserved.then_some(self.visible_at)
    }

    /// Returns the time at which the message is due for the runtime that it is reserved for, or for
    /// its instance once that is resumed.
    pub fn due_at(&self) -> Timestamp {
        if let Some(due_at) = self.paused {
            due_at
        } else if self.reserved {
            self.visible_at - MESSAGE_RESERVED
        } else {
            self.visible_at
        }
    }

    /// Converts a message to the trace of its consumption. Its id makes a second delivery conflict.
    pub(crate) fn into_trace(self) -> Self {
        Self {
            work_item: Text::Inline(String::new()),
            visible_at: NEVER,
            reserved: false,
            ttl: Some(REMEMBERED_SECONDS),
            ..self
        }
    }

    /// Returns the cause of an activity's completion, which is unique per scheduled activity.
    pub fn completion_cause(execution_id: u64, activity_id: u64) -> String {
        format!("activity-{execution_id}-{activity_id}")
    }
}

/// An activity to run.
///
/// ```
/// use cdb_provider::documents::{FIRST_DUE, WorkerItem};
/// use cdb_provider::model::Query;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # use duroxide::providers::{Provider as _, WorkItem};
/// # let render = WorkItem::ActivityExecute {
/// #     instance: "film-1".to_owned(), execution_id: 1, id: 2, name: "Render".to_owned(), input: String::new(),
/// #     session_id: None, tag: Some("gpu".to_owned()),
/// # };
/// # store.enqueue_for_worker(render).await?;
/// // Finds the activity that has waited longest for a machine with a GPU.
/// let waits = Query::<WorkerItem>::across_partitions()
///     .filter(WorkerItem::TAG.eq(Some("gpu".to_owned())) & WorkerItem::VISIBLE_AT.ge(FIRST_DUE))
///     .order_by(WorkerItem::BY_DUE)
///     .limit(1);
/// let oldest = store.container().query(waits).first().await?.expect("one waits");
/// assert_eq!((&*oldest.document.instance_id, oldest.document.activity_id), ("film-1", 2));
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
#[document(
    type = "worker_queue",
    id = "{instance_id}:work:{execution_id}:{activity_id}"
)]
#[document(composite(BY_DUE = r#type, visible_at))]
pub struct WorkerItem {
    /// The instance that scheduled the activity.
    #[document(partition_key)]
    pub instance_id: String,
    /// The execution that scheduled the activity.
    pub execution_id: u64,
    /// The event that scheduled the activity.
    pub activity_id: u64,
    /// The activity, as JSON text.
    #[document(unindexed)]
    pub work_item: Text,
    /// The dispatch slot of the instance, see [`dispatch_slot`].
    #[document(index)]
    pub dispatch_slot: u8,
    /// The time from which on the activity is visible. A lock moves it to the expiry of the lock,
    /// so that one comparison finds free activities.
    #[document(index)]
    pub visible_at: Timestamp,
    /// The time of the write.
    pub enqueued_at: Timestamp,
    /// Whether `visible_at` only hides the activity from other runtimes for a moment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved: bool,
    /// The lock token of the worker.
    #[serde(default)]
    pub lock_token: Option<String>,
    /// The expiry of the lock, by the service's clock.
    #[document(index)]
    #[serde(default)]
    pub locked_until: Option<Timestamp>,
    /// The number of fetches.
    #[serde(default)]
    pub attempt_count: u32,
    /// The session of the activity.
    #[document(index)]
    #[serde(default)]
    pub session_id: Option<String>,
    /// The tag that routes the activity to workers.
    #[document(index)]
    #[serde(default)]
    pub tag: Option<String>,
    /// The time at which it becomes visible once its paused instance is resumed. Until then,
    /// `visible_at` is [`PAUSED`](super::PAUSED), or the end of a lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Timestamp>,
    /// What [limits](super::Rule) select the activity by, besides its tag. Missing on activities of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
}

impl WorkerItem {
    /// Returns the time from which on the activity waits, which is its place in line. One whose worker has died keeps
    /// its place.
    pub(crate) fn waits_since(&self) -> Timestamp {
        if self.locked_until == Some(self.visible_at) {
            self.enqueued_at
        } else {
            self.visible_at
        }
    }

    /// Describes the activity, without its input: `Charge #2`.
    pub fn described(&self) -> String {
        match self.name() {
            Some(name) => format!("{name} #{}", self.activity_id),
            None => format!("#{}", self.activity_id),
        }
    }

    /// Returns the name of the activity; `None` if the text is damaged.
    pub(crate) fn name(&self) -> Option<String> {
        match serde_json::from_str(self.work_item.header()) {
            Ok(WorkItem::ActivityExecute { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// Creates the item of an activity. Returns `None` when `item` is not an activity.
    ///
    /// # Errors
    /// Fails when the activity cannot be written as JSON.
    pub fn new(item: &WorkItem, now: Timestamp) -> Result<Option<Self>, serde_json::Error> {
        let WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            name,
            session_id,
            tag,
            ..
        } = item
        else {
            return Ok(None);
        };
        Ok(Some(Self {
            instance_id: instance.clone(),
            execution_id: *execution_id,
            activity_id: *id,
            work_item: Text::Inline(serde_json::to_string(item)?),
            dispatch_slot: dispatch_slot(instance),
            visible_at: now,
            enqueued_at: now,
            session_id: session_id.clone(),
            tag: tag.clone(),
            labels: Some(Labels {
                activity: name.clone(),
                ..Labels::default()
            }),
            ..Self::default()
        }))
    }

    /// Adds what all activities of a turn have in common.
    pub(crate) fn with_labels(self, turn: &Labels) -> Self {
        let activity = self.labels.unwrap_or_default().activity;
        let labels = Labels {
            activity,
            ..turn.clone()
        };
        Self {
            labels: Some(labels),
            ..self
        }
    }

    /// Returns what limits select the activity by.
    pub(crate) fn all_labels(&self) -> Labels {
        let labels = self.labels.clone().unwrap_or_else(|| Labels {
            activity: self.name().unwrap_or_default(),
            ..Labels::default()
        });
        Labels {
            tag: self.tag.clone(),
            ..labels
        }
    }
}

impl Lockable for WorkerItem {
    fn lock_mark(&self) -> Option<&str> {
        self.lock_token.as_deref()
    }

    fn locked_until(&self) -> Option<Timestamp> {
        self.locked_until
    }

    /// A reserved activity is lockable too, by the process that knows it. `duroxide-cdb` locks
    /// without moving `visible_at`.
    fn is_lockable(&self, now: Timestamp) -> bool {
        self.paused.is_none()
            && (self.reserved || self.visible_at <= now)
            && self.locked_until.is_none_or(|until| until <= now)
    }
}

/// Returns the instance that a work item is for.
pub(crate) fn target_instance(item: &WorkItem) -> &str {
    match item {
        WorkItem::StartOrchestration { instance, .. }
        | WorkItem::ActivityExecute { instance, .. }
        | WorkItem::ActivityCompleted { instance, .. }
        | WorkItem::ActivityFailed { instance, .. }
        | WorkItem::TimerFired { instance, .. }
        | WorkItem::ExternalRaised { instance, .. }
        | WorkItem::CancelInstance { instance, .. }
        | WorkItem::ContinueAsNew { instance, .. }
        | WorkItem::QueueMessage { instance, .. } => instance,
        WorkItem::SubOrchCompleted {
            parent_instance, ..
        }
        | WorkItem::SubOrchFailed {
            parent_instance, ..
        } => parent_instance,
    }
}

/// Returns a work item without its long strings, as JSON: enough to identify the item and its
/// target.
///
/// # Errors
/// Fails when the item cannot be written as JSON.
pub(crate) fn header(mut item: WorkItem) -> Result<String, serde_json::Error> {
    match &mut item {
        WorkItem::StartOrchestration { input, .. } | WorkItem::ActivityExecute { input, .. } => {
            input.clear();
        }
        WorkItem::ActivityCompleted { result, .. } | WorkItem::SubOrchCompleted { result, .. } => {
            result.clear();
        }
        WorkItem::ActivityFailed { details, .. } | WorkItem::SubOrchFailed { details, .. } => {
            *details = ErrorDetails::Infrastructure {
                operation: String::new(),
                message: String::new(),
                retryable: false,
            };
        }
        WorkItem::ExternalRaised { data, .. } | WorkItem::QueueMessage { data, .. } => data.clear(),
        WorkItem::CancelInstance { reason, .. } => reason.clear(),
        WorkItem::ContinueAsNew {
            input,
            carry_forward_events,
            initial_custom_status,
            ..
        } => {
            input.clear();
            carry_forward_events.clear();
            *initial_custom_status = None;
        }
        WorkItem::TimerFired { .. } => {}
    }
    serde_json::to_string(&item)
}

fn execution_of(item: &WorkItem) -> Option<u64> {
    match item {
        WorkItem::StartOrchestration { execution_id, .. }
        | WorkItem::ActivityExecute { execution_id, .. }
        | WorkItem::ActivityCompleted { execution_id, .. }
        | WorkItem::ActivityFailed { execution_id, .. }
        | WorkItem::TimerFired { execution_id, .. } => Some(*execution_id),
        WorkItem::SubOrchCompleted {
            parent_execution_id,
            ..
        }
        | WorkItem::SubOrchFailed {
            parent_execution_id,
            ..
        } => Some(*parent_execution_id),
        WorkItem::ExternalRaised { .. }
        | WorkItem::CancelInstance { .. }
        | WorkItem::ContinueAsNew { .. }
        | WorkItem::QueueMessage { .. } => None,
    }
}

/// Returns the dispatch slot of an instance, 0 to 255: FNV-1a folded to a byte.
///
/// The slot is stored, so it must be the same on every platform and compiler. The standard
/// library's hasher does not promise that.
///
/// ```
/// use cdb_provider::coordination::membership::owner_of_slot;
/// use cdb_provider::documents::dispatch_slot;
///
/// // Finds the runtime that polls for the work of `order-7`.
/// let members = ["runtime-a", "runtime-b"];
/// let slot = dispatch_slot("order-7");
/// assert_eq!(slot, 98);
/// assert!(owner_of_slot(&members, slot.into()).is_some());
/// ```
pub fn dispatch_slot(instance_id: &str) -> u8 {
    let hash = instance_id.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.to_be_bytes()
        .into_iter()
        .fold(0, |slot, byte| slot ^ byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispatch_slot_returns_the_published_fnv_vectors() {
        // FNV-1a of nothing is its offset basis, 0x811c9dc5.
        assert_eq!(dispatch_slot(""), 0xc5);
        // FNV-1a of "a" is 0xe40c292c, of "foobar" 0xbf9cf968: the vectors its authors publish.
        assert_eq!(dispatch_slot("a"), 0xe4 ^ 0x0c ^ 0x29 ^ 0x2c);
        assert_eq!(dispatch_slot("foobar"), 0xbf ^ 0x9c ^ 0xf9 ^ 0x68);
    }
}
