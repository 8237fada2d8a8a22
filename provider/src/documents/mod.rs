//! The stored form of everything the provider keeps: one struct per document type, one enum for the container.
//!
//! Field names and discriminators are those of the container format of `duroxide-cdb`, so that a container written by
//! it opens; what we add is optional on reading. This folder knows storage and nothing of turns, polling or time.

mod chunk;
mod history;
mod inbox;
mod instance;
mod kv;
mod member;
mod outbox_intent;
mod partial;
mod queue_item;
mod schema;
mod session;

use cdb_model::Container;

pub use chunk::{Chunk, ChunkKey, Chunked, Spill, SpillKey, Text};
pub use history::{Execution, ExecutionKey, HistorySegment, HistorySegmentKey};
pub use inbox::{InboxRecord, InboxRecordKey};
pub use instance::{Instance, InstanceKey, Status};
pub use kv::{
    KeyValue, KeyValueDelta, KeyValueDeltaKey, KeyValueKey, KeyValuePack, KeyValuePackKey,
    PackedKeyValues,
};
pub use member::{Member, MemberKey};
pub use outbox_intent::{
    CancelledActivities, IntentItem, IntentQueue, OutboxIntent, OutboxIntentKey,
};
pub(crate) use partial::Partial;
pub use queue_item::{
    NEVER, OrchestratorItem, OrchestratorItemKey, WorkerItem, WorkerItemKey, dispatch_slot,
};
pub(crate) use queue_item::{RESERVED, header, target_instance};
pub(crate) use schema::gate;
pub use schema::{FIRST_DUE, SCHEMA_PARTITION, SCHEMA_VERSION, Schema, SchemaKey};
pub use session::{Session, SessionKey};

/// The document types of a duroxide container. Extend it with types of your own:
///
/// ```
/// use cdb_provider::documents::Durable;
/// # use cdb_provider::model::{Container, Document};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Document, Serialize, Deserialize)]
/// # #[document(crate = cdb_provider::model, type = "order", id = "{instance_id}:order:{number}")]
/// # struct Order { #[document(partition_key)] #[serde(rename = "instanceId")] instance_id: String, number: u64 }
/// #[derive(Container)]
/// # #[container(crate = cdb_provider::model)]
/// enum Shop {
///     #[container(extends)]
///     Durable(Durable),
///     Order(Order),
/// }
/// ```
#[derive(Container, Clone, Debug)]
#[container(partition_key = "/instanceId", discriminator = "type")]
#[non_exhaustive]
pub enum Durable {
    /// An orchestration instance.
    Instance(Instance),
    /// The events of one turn.
    History(HistorySegment),
    /// An execution that a later one has replaced.
    Execution(Execution),
    /// A message for an orchestration.
    OrchestratorItem(OrchestratorItem),
    /// An activity to run.
    WorkerItem(WorkerItem),
    /// Messages on their way to another instance.
    OutboxIntent(OutboxIntent),
    /// That messages of another instance have arrived.
    Inbox(InboxRecord),
    /// Which worker a session is bound to.
    Session(Session),
    /// A value of the key-value store.
    KeyValue(KeyValue),
    /// A change to the key-value store by the running execution.
    KeyValueDelta(KeyValueDelta),
    /// Which runtimes share the container.
    Member(Member),
    /// Which form the documents have.
    Schema(Schema),
    /// The key-value store of an instance that has changed more of it in one turn than a batch takes.
    KeyValuePack(KeyValuePack),
    /// A part of a text that is too large for its document.
    Chunk(Chunk),
    /// Which chunks belong to no document.
    Spill(Spill),
}
