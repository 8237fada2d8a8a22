//! The stored documents of the provider: one struct per document type, one enum for the container.
//!
//! Field names and discriminators are those of `duroxide-cdb`, so that its containers can be
//! opened; added fields are optional on reading. This module knows storage only, and nothing of
//! turns, polling or time.

mod attribute;
mod chunk;
mod document_header;
mod history;
mod inbox;
mod incarnation;
mod instance;
mod kv;
mod labels;
mod limited_key;
mod limits;
mod member;
mod outbox_intent;
mod partial;
mod queue_item;
mod schema;
mod session;
mod trace;

use cdb_model::Container;

pub use attribute::AttributeValue;
pub use chunk::{Chunk, ChunkKey, Chunked, Spill, SpillKey, Text};
pub(crate) use document_header::DocumentHeader;
pub use history::{Execution, ExecutionKey, HistorySegment, HistorySegmentKey, dropped_events};
pub use inbox::{InboxRecord, InboxRecordKey};
pub(crate) use incarnation::{Incarnation, IncarnationFields};
pub use instance::{Hold, HoldCause, Instance, InstanceKey, OperatorAction, Status};
pub use kv::{
    KeyValue, KeyValueDelta, KeyValueDeltaKey, KeyValueKey, KeyValuePack, KeyValuePackKey,
    PackedKeyValues,
};
pub use labels::Labels;
pub(crate) use labels::{MAX_LABEL, label_value};
pub use limited_key::{LimitedKey, LimitedKeyKey, RuntimeLease, RuntimeLeaseKey};
pub use limits::{
    LIMITS_PARTITION, Limits, LimitsKey, MAX_RULES, Priority, Rule, RuleError, Selector,
};
pub use member::{Member, MemberKey};
pub use outbox_intent::{
    CancelledActivities, IntentItem, IntentQueue, OutboxIntent, OutboxIntentKey,
};
pub(crate) use partial::Partial;
pub use queue_item::{
    OrchestratorItem, OrchestratorItemKey, WorkerItem, WorkerItemKey, dispatch_slot,
};
pub(crate) use queue_item::{header, target_instance};
pub(crate) use schema::gate;
pub use schema::{FIRST_DUE, SCHEMA_PARTITION, SCHEMA_VERSION, Schema, SchemaKey};
pub use session::{Session, SessionKey};
pub use trace::{NEVER, PAUSED};

/// The document types of a duroxide container. Extend it with other types:
///
/// ```
/// use cdb_provider::documents::Durable;
/// # use cdb_provider::model::{Container, Document};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Document, Serialize, Deserialize)]
/// # #[document(type = "order", id = "{instance_id}:order:{number}")]
/// # struct Order { #[document(partition_key)] #[serde(rename = "instanceId")] instance_id: String, number: u64 }
/// #[derive(Container)]
/// enum Shop {
///     #[container(extends)]
///     Durable(Durable),
///     Order(Order),
/// }
/// ```
#[derive(Container, Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "users match on the documents themselves, and hold few at a time"
)]
#[non_exhaustive]
pub enum Durable {
    /// An orchestration instance.
    Instance(Instance),
    /// The events of one turn.
    History(HistorySegment),
    /// An execution that was replaced by a later one.
    Execution(Execution),
    /// A message for an orchestration.
    OrchestratorItem(OrchestratorItem),
    /// An activity to run.
    WorkerItem(WorkerItem),
    /// Messages to another instance.
    OutboxIntent(OutboxIntent),
    /// The record of a delivery.
    Inbox(InboxRecord),
    /// The worker that a session is bound to.
    Session(Session),
    /// A value of the key-value store.
    KeyValue(KeyValue),
    /// A change to the key-value store by the running execution.
    KeyValueDelta(KeyValueDelta),
    /// The roster or a heartbeat of the runtimes that share the container.
    Member(Member),
    /// The schema version of the documents.
    Schema(Schema),
    /// The whole key-value store of an instance, once one turn has changed more keys than a batch
    /// holds.
    KeyValuePack(KeyValuePack),
    /// A chunk of a text that is too large for its document.
    Chunk(Chunk),
    /// The names of chunks that belong to no document.
    Spill(Spill),
    /// The limits of activities.
    Limits(Limits),
    /// The permits of a limited key.
    LimitedKey(LimitedKey),
    /// The lease of a runtime that may hold permits.
    RuntimeLease(RuntimeLease),
}
