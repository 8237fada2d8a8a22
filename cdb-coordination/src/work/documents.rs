//! The stored form of the work coordinator: one struct per document type, one enum for the container.
//!
//! Everything of a stream lies in one logical partition, that of its virtual partition, so whatever has to happen together
//! is one transactional batch. This file knows storage, and nothing of ownership, order or time.

use cdb_model::{Container, Document, IdPart, Timestamp};
use serde::{Deserialize, Serialize};

use super::status::WorkStatus;
use crate::membership::{MemberDocument, MemberRecord};

/// The document types of a work coordinator. Documents of your own that are written together with the end of a message
/// belong to a container that extends this one:
///
/// ```
/// use cdb_coordination::Work;
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
#[container(partition_key = "/partition", default_ttl = "per_document")]
pub enum Work {
    /// What all coordinators of the container agree on.
    Settings(WorkSettings),
    /// A coordinator's process, for [`Membership`](crate::Membership).
    Member(WorkMember),
    /// Who works on a virtual partition.
    Partition(WorkPartition),
    /// How far a stream has come.
    Stream(WorkStream),
    /// A message, waiting or remembered.
    Message(WorkMessage),
    /// How many events a stream has.
    EventHead(EventHead),
    /// An event.
    Event(StreamEvent),
}

/// Which way a message goes. Each stream has an order of its own in each lane.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::{Lane, NewWork};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// # work.immediate().store(NewWork::outbox("order-7", "announced")).await?;
/// let mut published = Vec::new();
/// for claimed in work.claim(10, Duration::from_secs(60)).await {
///     match claimed.message().lane {
///         Lane::Inbox => println!("to be worked on: {}", claimed.message().body),
///         Lane::Outbox => published.push(claimed.message().message_id.clone()),
///     }
/// }
/// assert_eq!(published, ["announced"]);
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// Received, to be worked on here.
    Inbox,
    /// To be published to others.
    Outbox,
}

impl Lane {
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

/// What all coordinators of the container must have in common, written by the first.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "work_settings", id = "{partition}:settings")]
pub struct WorkSettings {
    /// A partition of its own.
    #[document(partition_key)]
    pub partition: String,
    /// How many virtual partitions there are. Another number would tear streams apart.
    pub partitions: u16,
}

/// A record of [`Membership`](crate::Membership), for coordinators whose processes share the slots by it:
/// `Membership::start::<WorkMember, Work>(…)`.
///
/// ```
/// use std::sync::Arc;
/// use cdb_client::ContainerClient;
/// use cdb_coordination::{
///     Membership, MembershipConfig, Work, WorkConfig, WorkCoordinator, WorkMember,
/// };
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_container("work", async |container: ContainerClient<Work>| {
///
/// // Several processes share the work, each as long as it lives.
/// let config = MembershipConfig::named("worker-1");
/// let me = Arc::new(Membership::start::<WorkMember, _>(container.clone(), config));
/// let work = WorkCoordinator::open(container, me.clone(), WorkConfig::default()).await?;
/// assert_eq!(work.partitions().len(), 32); // alone so far
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
    /// The member.
    pub name: String,
    /// What membership keeps.
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

/// Who works on a virtual partition. Every batch that ends messages is conditional on its fence.
///
/// ```
/// use cdb_client::ContainerClient;
/// use cdb_coordination::{Work, WorkPartition};
/// use cdb_model::Query;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_container("work", async |container: ContainerClient<Work>| {
///
/// # let work = setup::coordinator(container.clone()).await?;
/// // Who works on what?
/// let held = container.query(Query::<WorkPartition>::across_partitions()).all().await?;
/// let by_us = held.iter().filter(|held| held.document.owner.as_deref() == Some(work.id()));
/// assert_eq!(by_us.count(), work.partitions().len());
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "work_partition", id = "{partition}:partition")]
pub struct WorkPartition {
    /// The virtual partition.
    #[document(partition_key, index)]
    pub partition: String,
    /// The coordinator that works on it; nobody after it was given back.
    pub owner: Option<String>,
    /// Grows with every change of hands. A coordinator that was stopped and comes back holds an older one.
    #[document(index)]
    pub fence: u64,
    /// Until when, by the service's clock; then another coordinator may take it.
    pub until: Timestamp,
    /// Names the last batch of the owner: after a lost answer it tells whether the batch took place.
    pub token: String,
}

/// How far a stream has come.
///
/// ```
/// use cdb_client::ContainerClient;
/// use cdb_coordination::{NewWork, Work, WorkStream};
/// use cdb_model::Query;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_container("work", async |container: ContainerClient<Work>| {
///
/// # let work = setup::coordinator(container.clone()).await?;
/// work.immediate().store(NewWork::inbox("order-7", "paid-1")).await?;
/// // How much is waiting, and where?
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
    /// Which way its messages go.
    pub lane: Lane,
    /// The stream.
    #[document(index)]
    pub stream: String,
    /// The sequence number of the next message. Whoever stores one takes it by a condition on it.
    #[document(index)]
    pub next: u64,
    /// The last message that ended. The next one can only end on a condition on it.
    #[document(index)]
    pub done: u64,
    /// When it was last written; streams at rest are forgotten by it.
    #[document(index)]
    pub touched: Timestamp,
}

/// A message of a stream. When it has ended, it stays without its body for a while, so that a second delivery of the same
/// message is recognised at the door.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::{NewWork, WorkMessage};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// # let paid = NewWork::inbox("order-7", "paid-1").with_body("paid", r#"{"cents": 9900}"#);
/// # work.immediate().store(paid).await?;
/// let claimed = work.claim(1, Duration::from_secs(60)).await.pop().expect("it was stored");
/// let message: &WorkMessage = claimed.message();
/// assert_eq!((&*message.kind, &*message.body), ("paid", r#"{"cents": 9900}"#));
/// assert_eq!((message.sequence, message.attempts), (1, 0));
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(
    type = "work_message",
    id = "{partition}:message:{lane}:{stream}:{message_id}"
)]
#[document(composite(BY_WAITING = r#type, waiting_since))]
pub struct WorkMessage {
    /// The virtual partition of the stream.
    #[document(partition_key, index)]
    pub partition: String,
    /// Which way it goes.
    pub lane: Lane,
    /// The stream.
    pub stream: String,
    /// Chosen by the sender, unique within the stream.
    #[document(index)]
    pub message_id: String,
    /// Its place in the stream, from 1 and without gaps.
    pub sequence: u64,
    /// Since when it waits; nothing when it has ended or was set aside.
    #[document(index)]
    pub waiting_since: Option<Timestamp>,
    /// Not before this time: a delay of the sender, or of the next attempt.
    pub due_at: Timestamp,
    /// Since when it is set aside, after too many failures; such a message holds its stream.
    #[document(index)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_since: Option<Timestamp>,
    /// The stages that it has passed.
    pub status: WorkStatus,
    /// The stages that it has to pass.
    pub needs: WorkStatus,
    /// How often it failed.
    pub attempts: u32,
    /// Why, the last time.
    #[document(unindexed)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// What kind of message it is, for whoever works on it.
    pub kind: String,
    /// The message. Text, because the service stores numbers as doubles.
    #[document(unindexed)]
    pub body: String,
    /// Names the batch that stored it: after a lost answer it tells whether that was ours.
    pub token: String,
    /// Seconds until the service forgets a message that has ended.
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
}

/// How many events a stream has.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "event_head", id = "{partition}:event-head:{stream}")]
pub struct EventHead {
    /// The virtual partition of the stream.
    #[document(partition_key)]
    pub partition: String,
    /// The stream.
    pub stream: String,
    /// The version of the newest event. Events are appended on a condition on it.
    #[document(index)]
    pub version: u64,
}

/// An event of a stream. Never changed, so the change feed shows it once.
///
/// ```
/// use cdb_coordination::{NewEvent, StreamEvent};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let events = work.events();
/// let placed = NewEvent::new("placed", r#"{"cents": 9900}"#);
/// events.append("order-7", 0, vec![placed, NewEvent::new("paid", "{}")]).await?;
/// let history: Vec<StreamEvent> = events.read("order-7", 0, 100).await?;
/// let told: Vec<_> = history.iter().map(|event| (event.version, &*event.kind)).collect();
/// assert_eq!(told, [(1, "placed"), (2, "paid")]);
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "event", id = "{partition}:event:{stream}:{version}")]
#[document(composite(BY_VERSION = r#type, stream, version))]
pub struct StreamEvent {
    /// The virtual partition of the stream.
    #[document(partition_key)]
    pub partition: String,
    /// The stream.
    #[document(index)]
    pub stream: String,
    /// Its place in the stream, from 1 and without gaps.
    #[document(index)]
    pub version: u64,
    /// What kind of event it is.
    pub kind: String,
    /// The event. Text, because the service stores numbers as doubles.
    #[document(unindexed)]
    pub body: String,
    /// When it was appended, by the service's clock as the writer knew it.
    pub recorded_at: Timestamp,
    /// Names the append: after a lost answer it tells whether the event is ours.
    pub token: String,
}
