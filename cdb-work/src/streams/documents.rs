//! The stored form of the work coordinator: one struct per document type, one enum for the
//! container.
//!
//! The documents of a stream are in one logical partition, named after the virtual partition, so
//! one transactional batch can change them together. This file defines storage only.

use cdb_model::value::IdPart;
use cdb_model::{Container, Document, Timestamp};
use serde::{Deserialize, Serialize};

use super::status::WorkStatus;
use cdb_coordination::membership::{MemberDocument, MemberRecord};
use cdb_coordination::message::MessageContext;

/// The document types of a work coordinator.
///
/// They cannot share a container with the provider's `Durable`: all documents of a container have
/// their partition key at one path, `/partition` here and `/instanceId` there. A batch could not
/// contain both anyway, because a stream has another logical partition than an instance. Use two
/// containers of a database whose containers share their throughput.
///
/// To write documents of your own together with the completion of a message, extend this
/// container:
///
/// ```
/// use cdb_work::Work;
/// # use cdb_model::{Container, Document};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Document, Serialize, Deserialize)]
/// # #[document(type = "stock", id = "{partition}:stock:{article}")]
/// # struct Stock { #[document(partition_key)] partition: String, article: String, left: u32 }
/// #[derive(Container)]
/// enum Warehouse {
///     #[container(extends)]
///     Work(Work),
///     Stock(Stock),
/// }
/// ```
#[derive(Container, Clone, Debug)]
#[container(default_ttl = "per_document")]
pub enum Work {
    /// The settings that all coordinators of the container share.
    Settings(WorkSettings),
    /// A coordinator's process, for [`Membership`](cdb_coordination::Membership).
    Member(WorkMember),
    /// The owner of a virtual partition.
    Partition(WorkPartition),
    /// The progress of a stream.
    Stream(WorkStream),
    /// A message, waiting or completed.
    Message(WorkMessage),
    /// The version of an event stream.
    EventHead(EventHead),
    /// An event.
    Event(StreamEvent),
    /// The snapshot of an event stream.
    Snapshot(EventSnapshot),
}

/// The direction of a message. Each stream has one order per lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// A received message, to be worked on here.
    Inbox,
    /// A message to be published to others.
    Outbox,
}

impl Lane {
    pub(crate) const BOTH: [Self; 2] = [Self::Inbox, Self::Outbox];

    /// The stored text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Outbox => "outbox",
        }
    }
}

impl IdPart for Lane {
    fn to_id_part(&self) -> String {
        self.as_str().to_owned()
    }

    fn from_id_part(text: &str) -> Result<Self, String> {
        match text {
            "inbox" => Ok(Self::Inbox),
            "outbox" => Ok(Self::Outbox),
            _ => Err(format!("`{text}` is neither `inbox` nor `outbox`")),
        }
    }
}

/// The settings that all coordinators of the container share, written by the first.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "work_settings", id = "{partition}:settings")]
pub struct WorkSettings {
    /// The partition of this document alone.
    #[document(partition_key)]
    pub partition: String,
    /// The number of virtual partitions. A change would move streams to other partitions.
    pub partitions: u16,
    /// The schema version; 1 in containers from before this field. A coordinator refuses a higher one
    /// than [`SCHEMA_VERSION`].
    #[serde(rename = "form", default = "first_schema")]
    pub schema_version: u32,
    /// The crate and version that wrote this document.
    #[serde(default)]
    pub written_by: String,
}

/// The schema version of the documents. It grows when an older coordinator would misread or damage
/// what this release writes. Optional fields and new document types do not change it.
pub(crate) const SCHEMA_VERSION: u32 = 1;

fn first_schema() -> u32 {
    1
}

/// A record of [`Membership`](cdb_coordination::Membership), for coordinators that share slots by
/// membership: `Membership::start::<WorkMember, Work>(…)`.
///
/// ```
/// use std::sync::Arc;
/// use cdb_client::ContainerClient;
/// use cdb_coordination::Membership;
/// use cdb_coordination::membership::MembershipConfig;
/// use cdb_work::{Work, WorkConfig, WorkCoordinator, WorkMember};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_container("work", async |container: ContainerClient<Work>| {
///
/// // The live members share the work.
/// let config = MembershipConfig::named("worker-1");
/// let me = Arc::new(Membership::start::<WorkMember, _>(container.clone(), config));
/// let work = WorkCoordinator::open(container, me.clone(), WorkConfig::default()).await?;
/// assert_eq!(work.partitions().len(), 32); // the only member
/// work.shutdown().await?;
/// me.leave().await;
/// # Ok(()) }).unwrap();
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "work_member", id = "{partition}:member:{name}")]
pub struct WorkMember {
    /// The group.
    #[document(partition_key)]
    pub partition: String,
    /// The name of the document.
    pub name: String,
    /// The record of membership.
    #[document(unindexed)]
    pub record: MemberRecord,
}

impl MemberDocument for WorkMember {
    fn new(group: &str, name: &str, record: MemberRecord) -> Self {
        Self {
            partition: group.to_owned(),
            name: name.to_owned(),
            record,
        }
    }

    fn into_record(self) -> MemberRecord {
        self.record
    }
}

/// The owner of a virtual partition. Every batch that completes messages is conditional on its
/// fence.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "work_partition", id = "{partition}:partition")]
pub struct WorkPartition {
    /// The virtual partition.
    #[document(partition_key, index)]
    pub partition: String,
    /// The id of the coordinator that holds the partition; `None` after a release.
    pub owner: Option<String>,
    /// The fencing token: grows with every change of the owner.
    #[document(index)]
    pub fence: u64,
    /// When the lease expires, in the service's time.
    pub until: Timestamp,
    /// The token of the owner's last batch. After a lost answer it tells whether that batch took
    /// place.
    pub token: String,
    /// When the partition was last taken from an owner that had not released it. That owner may have
    /// handed out messages from before this time. A release keeps it, because the releasing
    /// coordinator may not have read these messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_over_at: Option<Timestamp>,
}

/// The progress of a stream.
///
/// ```
/// use cdb_client::ContainerClient;
/// use cdb_work::{NewWork, Work, WorkStream};
/// use cdb_model::Query;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_container("work", async |container: ContainerClient<Work>| {
///
/// # let work = setup::coordinator(container.clone()).await?;
/// work.immediate().store(NewWork::inbox("order-7", "paid-1")).await?;
/// // Reads how many messages of a stream are waiting.
/// let query = Query::<WorkStream>::across_partitions().filter(WorkStream::STREAM.eq("order-7"));
/// let stream = container.query(query).first().await?.expect("it has a message").document;
/// assert_eq!(stream.next - 1 - stream.done, 1);
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "work_stream", id = "{partition}:stream:{lane}:{stream}")]
pub struct WorkStream {
    /// The virtual partition of the stream.
    #[document(partition_key, index)]
    pub partition: String,
    /// The lane of its messages.
    pub lane: Lane,
    /// The stream's name.
    #[document(index)]
    pub stream: String,
    /// The sequence number of the next message. A batch that stores messages advances it under a
    /// condition.
    #[document(index)]
    pub next: u64,
    /// The sequence number of the last completed message. A batch that completes messages advances
    /// it under a condition.
    #[document(index)]
    pub done: u64,
    /// When the stream was last written. Idle streams are deleted by it.
    #[document(index)]
    pub touched: Timestamp,
}

/// A message of a stream. A completed message stays without its body for a while, so that a
/// duplicate is detected.
///
/// Only a coordinator creates one, because the order of a stream is in several documents:
///
/// ```compile_fail,E0639
/// use cdb_work::{Lane, WorkMessage, WorkStatus};
///
/// let forged = WorkMessage { // `NewWork::inbox("order-7", "paid-1")` instead
///     partition: "work-000".into(), lane: Lane::Inbox, stream: "order-7".into(),
///     message_id: "paid-1".into(), sequence: 1, waiting_since: None, due_at: Default::default(),
///     retrying: false, dead_since: None, status: WorkStatus::NONE, needs: WorkStatus::RECEIVER_DONE, attempts: 0,
///     started_under: None, last_failure: None, kind: String::new(), context: Default::default(),
///     body: String::new(), token: String::new(), ttl: None,
/// };
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(
    type = "work_message",
    id = "{partition}:message:{lane}:{stream}:{message_id}"
)]
#[document(composite(BY_WAITING = r#type, waiting_since))]
#[non_exhaustive]
pub struct WorkMessage {
    /// The virtual partition of the stream.
    #[document(partition_key, index)]
    pub partition: String,
    /// The lane of the message.
    pub lane: Lane,
    /// The stream's name.
    pub stream: String,
    /// The sender's id of the message, unique within the stream.
    #[document(index)]
    pub message_id: String,
    /// The position in the stream, from 1 without gaps.
    pub sequence: u64,
    /// Since when the message waits, or from when it is due if that is later; `None` after it was
    /// completed or became dead.
    #[document(index)]
    pub waiting_since: Option<Timestamp>,
    /// The earliest time of the next attempt.
    pub due_at: Timestamp,
    /// Whether an attempt failed and the message is retried, at `due_at`.
    #[document(index)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retrying: bool,
    /// Since when the message is dead after too many failures. It holds its stream.
    #[document(index)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_since: Option<Timestamp>,
    /// The stages that the message has passed.
    pub status: WorkStatus,
    /// The stages that the message needs to pass.
    pub needs: WorkStatus,
    /// How many attempts failed.
    pub attempts: u32,
    /// The fence under which an attempt was started that has no stored outcome. Written before a
    /// message is handed out that failed before or was taken over from another coordinator. Under
    /// another fence it tells that the process of the attempt ended without a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_under: Option<u64>,
    /// The reason of the last failure.
    #[document(unindexed)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// The kind of the message, for its handler.
    pub kind: String,
    /// Headers and scope. Boxed to keep the container's enum small.
    #[serde(default, skip_serializing_if = "has_no_context")]
    pub context: Box<MessageContext>,
    /// The content. Text, because the service stores numbers as doubles.
    #[document(unindexed)]
    pub body: String,
    /// The token of the batch that stored the message. After a lost answer it tells whether the
    /// batch took place.
    pub token: String,
    /// The time to live in seconds, after the message was completed.
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
}

impl WorkMessage {
    /// A stored message without content, which no attempt was made for.
    pub(crate) fn new(key: WorkMessageKey, sequence: u64) -> Self {
        Self {
            partition: key.partition,
            lane: key.lane,
            stream: key.stream,
            message_id: key.message_id,
            sequence,
            waiting_since: None,
            due_at: Timestamp::default(),
            retrying: false,
            dead_since: None,
            status: WorkStatus::STORED,
            needs: WorkStatus::STORED,
            attempts: 0,
            started_under: None,
            last_failure: None,
            kind: String::new(),
            context: Box::default(),
            body: String::new(),
            token: String::new(),
            ttl: None,
        }
    }

    /// The name of the handler ([`NewWork::for_handler`](crate::NewWork::for_handler)): the header
    /// `handler`.
    pub fn handler(&self) -> Option<&str> {
        self.context.handler()
    }
}

#[expect(clippy::borrowed_box, reason = "the signature that serde needs")]
fn has_no_context(context: &Box<MessageContext>) -> bool {
    context.is_empty()
}

/// The version of an event stream.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "event_head", id = "{partition}:event-head:{stream}")]
pub struct EventHead {
    /// The virtual partition of the stream.
    #[document(partition_key)]
    pub partition: String,
    /// The stream's name.
    pub stream: String,
    /// The version of the newest event. An append advances it under a condition.
    #[document(index)]
    pub version: u64,
}

/// An event of a stream. Events never change, so the change feed shows each once.
#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "event", id = "{partition}:event:{stream}:{version}")]
#[document(composite(BY_VERSION = r#type, stream, version))]
pub struct StreamEvent {
    /// The virtual partition of the stream.
    #[document(partition_key)]
    pub partition: String,
    /// The stream's name.
    #[document(index)]
    pub stream: String,
    /// The position in the stream, from 1 without gaps.
    #[document(index)]
    pub version: u64,
    /// The kind of the event.
    pub kind: String,
    /// Headers and scope. Boxed to keep the container's enum small.
    #[serde(default, skip_serializing_if = "has_no_context")]
    pub context: Box<MessageContext>,
    /// The content. Text, because the service stores numbers as doubles.
    #[document(unindexed)]
    pub body: String,
    /// When the event was appended, in the service's time as the writer knew it.
    pub recorded_at: Timestamp,
    /// The id of the message that was stored together with the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The token of the append. After a lost answer it tells whether the append took place.
    pub token: String,
}

/// The state of an event stream at a version, so that older events need not be read.
///
/// ```
/// use cdb_work::NewEvent;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let events = work.events();
/// events.append("order-7", 0, vec![NewEvent::new("placed", "{}")]).await?;
/// events.save_snapshot("order-7", 1, r#"{"state": "placed"}"#).await?;
/// let snapshot = events.snapshot("order-7").await?.expect("it was saved");
/// let later = events.read("order-7", snapshot.version, 100).await?;
/// assert_eq!((&*snapshot.body, later.len()), (r#"{"state": "placed"}"#, 0));
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "event_snapshot", id = "{partition}:event-snapshot:{stream}")]
pub struct EventSnapshot {
    /// The virtual partition of the stream.
    #[document(partition_key)]
    pub partition: String,
    /// The stream's name.
    pub stream: String,
    /// The version of the last event in the snapshot.
    #[document(index)]
    pub version: u64,
    /// The content. Text, because the service stores numbers as doubles.
    #[document(unindexed)]
    pub body: String,
}
