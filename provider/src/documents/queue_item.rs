//! The two queues. An item lives in the partition of the instance that it is for.
//!
//! Ids are derived from the cause of the item where there is one, so that writing it twice stores it once.

use std::time::Duration;

use cdb_coordination::Lockable;
use cdb_model::{Document, Timestamp};
use duroxide::ErrorDetails;
use duroxide::providers::WorkItem;
use serde::{Deserialize, Serialize};

use super::Text;

/// A message for an orchestration. Which dispatcher works on it is decided by the lock of its instance.
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
/// // How many messages wait in the slot of `order-7`.
/// let now = store.container().now();
/// let due = OrchestratorItem::DISPATCH_SLOT.eq(dispatch_slot("order-7"))
///     & OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, now);
/// let counts = store.container().query(Query::across_partitions().filter(due).count()).all().await?;
/// assert_eq!(counts.into_iter().sum::<u64>(), 1); // one count per physical partition
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "orch_queue", id = "{instance_id}:orch:{cause}")]
#[document(composite(BY_DUE = r#type, visible_at))]
pub struct OrchestratorItem {
    /// The instance that receives it.
    #[document(partition_key)]
    pub instance_id: String,
    /// What caused it, unique within the instance. Empty on items of `duroxide-cdb`, whose ids are random.
    #[serde(default)]
    pub cause: String,
    /// The message, as JSON text.
    #[document(unindexed)]
    pub work_item: Text,
    /// Share of the load that the instance belongs to, see [`dispatch_slot`].
    #[document(index)]
    pub dispatch_slot: u8,
    /// Not before this time.
    #[document(index)]
    pub visible_at: Timestamp,
    /// When it was written; orders items that became visible together.
    pub enqueued_at: Timestamp,
    /// The execution it is for, where the message says so.
    #[serde(default)]
    pub execution_id: Option<u64>,
    /// Fetches counted by `duroxide-cdb`; ours are counted in the instance.
    #[serde(default)]
    pub attempt_count: u32,
    /// Whether `visible_at` only keeps other runtimes from it for a moment: it is due for the one that wrote it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved: bool,
    /// Whether it may come again, as what came by an intent or from a client: then it leaves a trace when it is consumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delivered: bool,
    /// Seconds until the service deletes the trace of a consumed message. On a container that has no time to live, as
    /// `duroxide-cdb` makes them, it stays until its instance is deleted.
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
}

/// How long a queue item is left to the runtime that wrote it and knows of it. Others find it when this has passed: its
/// runtime has more to do than it can, or is gone.
pub(crate) const RESERVED: Duration = Duration::from_millis(500);

/// When a consumed message is due again: never, by the last millisecond that a four-digit year can name.
pub const NEVER: Timestamp = Timestamp::from_millis(253_402_300_799_999);

/// How long a delivery is remembered, in seconds: one day. An intent is removed right after its delivery; its trace has
/// to outlive every failure to do so.
pub(super) const REMEMBERED_SECONDS: u32 = 24 * 60 * 60;

impl OrchestratorItem {
    /// A message for the instance that it names.
    ///
    /// # Errors
    /// When the message cannot be written as JSON.
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
            attempt_count: 0,
            reserved: false,
            delivered: false,
            ttl: None,
            instance_id,
        })
    }

    /// The message, if it is due at `now`, as a runtime writes it that will work on it itself.
    pub(crate) fn reserved(self, now: Timestamp) -> Self {
        if self.visible_at > now {
            return self;
        }
        Self {
            reserved: true,
            visible_at: now + RESERVED,
            ..self
        }
    }

    /// When it is due for whoever knows of it.
    pub fn due_at(&self) -> Timestamp {
        if self.reserved {
            self.visible_at - RESERVED
        } else {
            self.visible_at
        }
    }

    /// What is left of a consumed message that may be delivered again: its id, which a second delivery conflicts with.
    pub(crate) fn into_trace(self) -> Self {
        Self {
            work_item: Text::Inline(String::new()),
            visible_at: NEVER,
            reserved: false,
            ttl: Some(REMEMBERED_SECONDS),
            ..self
        }
    }

    /// The cause of an activity's completion: one per scheduled activity.
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
/// // Do the machines with a GPU keep up? When the activity that waits longest for one was to begin.
/// let waits = Query::<WorkerItem>::across_partitions()
///     .filter(WorkerItem::TAG.eq(Some("gpu".to_owned())) & WorkerItem::VISIBLE_AT.ge(FIRST_DUE))
///     .order_by(WorkerItem::BY_DUE.asc())
///     .top(1);
/// let oldest = store.container().query(waits).first().await?.expect("one waits");
/// assert_eq!((&*oldest.document.instance_id, oldest.document.activity_id), ("film-1", 2));
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(
    type = "worker_queue",
    id = "{instance_id}:work:{execution_id}:{activity_id}"
)]
#[document(composite(BY_DUE = r#type, visible_at))]
pub struct WorkerItem {
    /// The instance that scheduled it.
    #[document(partition_key)]
    pub instance_id: String,
    /// The execution that scheduled it.
    pub execution_id: u64,
    /// The event that scheduled it.
    pub activity_id: u64,
    /// The activity, as JSON text.
    #[document(unindexed)]
    pub work_item: Text,
    /// Share of the load that the instance belongs to, see [`dispatch_slot`].
    #[document(index)]
    pub dispatch_slot: u8,
    /// Not before this time. A lock moves it to the end of the lock, so that one comparison finds what is free.
    #[document(index)]
    pub visible_at: Timestamp,
    /// When it was written.
    pub enqueued_at: Timestamp,
    /// Whether `visible_at` only keeps other runtimes from it for a moment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved: bool,
    /// Who runs it.
    #[serde(default)]
    pub lock_token: Option<String>,
    /// Until when, by the service's clock.
    #[serde(default)]
    pub locked_until: Option<Timestamp>,
    /// How often it was fetched.
    #[serde(default)]
    pub attempt_count: u32,
    /// The session it is bound to.
    #[document(index)]
    #[serde(default)]
    pub session_id: Option<String>,
    /// The tag that routes it to workers.
    #[document(index)]
    #[serde(default)]
    pub tag: Option<String>,
}

impl WorkerItem {
    /// The item of an activity, or `None` when `item` is no activity.
    ///
    /// # Errors
    /// When the activity cannot be written as JSON.
    pub fn new(item: &WorkItem, now: Timestamp) -> Result<Option<Self>, serde_json::Error> {
        let WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
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
            reserved: false,
            lock_token: None,
            locked_until: None,
            attempt_count: 0,
            session_id: session_id.clone(),
            tag: tag.clone(),
        }))
    }
}

impl Lockable for WorkerItem {
    fn lock_mark(&self) -> Option<&str> {
        self.lock_token.as_deref()
    }

    fn locked_until(&self) -> Option<Timestamp> {
        self.locked_until
    }

    /// For whoever knows of it, a reserved one too. `duroxide-cdb` locks without moving `visible_at`.
    fn is_lockable(&self, now: Timestamp) -> bool {
        (self.reserved || self.visible_at <= now)
            && self.locked_until.is_none_or(|until| until <= now)
    }
}

/// The instance that a work item is for.
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

/// A message without its long strings: enough to know what it is and where it goes.
///
/// # Errors
/// When it cannot be written as JSON.
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

/// The dispatch slot of an instance, 0 to 255: FNV-1a folded to a byte.
///
/// It is stored, so it must be the same on every platform and compiler, which the standard library's hasher does not
/// promise.
///
/// ```
/// use cdb_provider::coordination::owner_of_slot;
/// use cdb_provider::documents::dispatch_slot;
///
/// // Which of the runtimes that share a container looks for the work of `order-7`.
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
    fn slots_are_stored_and_so_never_change() {
        // FNV-1a of nothing is its offset basis, 0x811c9dc5.
        assert_eq!(dispatch_slot(""), 0xc5);
        // FNV-1a of "a" is 0xe40c292c, of "foobar" 0xbf9cf968: the vectors its authors publish.
        assert_eq!(dispatch_slot("a"), 0xe4 ^ 0x0c ^ 0x29 ^ 0x2c);
        assert_eq!(dispatch_slot("foobar"), 0xbf ^ 0x9c ^ 0xf9 ^ 0x68);
    }
}
