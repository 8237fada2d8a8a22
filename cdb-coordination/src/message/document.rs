//! The document type of outbox, inbox and dead letters, for containers of any partition key.
//!
//! The type is generic over its container. The derive does not support that, so this file contains
//! what the derive would generate.

use std::marker::PhantomData;

use cdb_model::__private::{IdReader, IdWriter};
use cdb_model::{
    BatchPartition, Composite, CompositePath, CompositeShape, CompositeTarget, Container,
    DecodeError, Direction, Document, DocumentKey, DocumentShape, FieldCodec, FieldIndexing,
    FieldShape, IdError, IdSegment, Indexed, ItemId, MemberOf, PartitionKey, Patchable, Path,
    QueriedIn, Queryable, Stored, Timestamp, Unindexed, decode,
};
use derive_where::derive_where;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::content::{Answer, Content, Dead, Incoming, Outgoing, Seen, Stream};
use super::envelope::Address;
use super::partition_fields::PartitionFields;

/// A document of the outbox or the inbox of container `C`. With a variant for it in the container
/// type, every partition can send and receive messages:
///
/// ```
/// use cdb_coordination::MessageDocument;
/// # use cdb_model::{Container, Document};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Document, Serialize, Deserialize)]
/// # #[document(type = "order", id = "order:{number}")]
/// # struct Order { #[document(partition_key)] #[serde(rename = "customerId")] customer_id: String, number: u64 }
/// #[derive(Container)]
/// enum Shop {
///     Order(Order),
///     Message(MessageDocument<Shop>),
/// }
/// # assert!(Shop::definition().indexing_policy().composite_indexes.len() >= 3);
/// ```
///
/// [`Messaging`](crate::Messaging) and [`DeadLetters`](crate::DeadLetters) read and write its
/// content.
#[derive(Serialize, Deserialize)]
#[derive_where(Clone, Debug)]
#[serde(rename_all = "camelCase", bound = "C: Container")]
pub struct MessageDocument<C> {
    #[serde(flatten)]
    partition_fields: PartitionFields<C>,
    pub(crate) slot: String,
    /// When the reconciler may deliver the message; only on outgoing messages.
    #[serde(rename = "mailOut", default, skip_serializing_if = "Option::is_none")]
    pub(crate) send_due: Option<Timestamp>,
    /// When any process may receive the message; only on incoming messages.
    #[serde(rename = "mailIn", default, skip_serializing_if = "Option::is_none")]
    pub(crate) receive_due: Option<Timestamp>,
    /// When the message became a dead letter.
    #[serde(rename = "mailDead", default, skip_serializing_if = "Option::is_none")]
    pub(crate) dead_lettered_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
    /// Boxed to keep the container's enum small.
    #[serde(rename = "mail")]
    content: Box<Content>,
}

impl<C> MessageDocument<C> {
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// The partition of the document.
    pub(crate) fn partition(&self) -> &PartitionKey {
        self.partition_fields.key()
    }
}

/// An indexed path of a message document.
type DuePath<C> = Path<MessageDocument<C>, Timestamp, Indexed, Patchable>;

impl<C: Container> MessageDocument<C> {
    pub(crate) const SEND_DUE: DuePath<C> = Path::new("/mailOut");
    pub(crate) const RECEIVE_DUE: DuePath<C> = Path::new("/mailIn");
    pub(crate) const DEAD_LETTERED_AT: DuePath<C> = Path::new("/mailDead");
    /// The process that may handle an incoming message.
    pub(crate) const CLAIMED_BY: Path<Self, Option<String>, Unindexed, Patchable> =
        Path::new("/mail/claimedBy");
    /// How often a process has started to handle an incoming message.
    pub(crate) const STARTED: Path<Self, u32, Unindexed, Patchable> = Path::new("/mail/started");
    pub(crate) const BY_SEND_DUE: Composite<Self> =
        Composite::new(&<Self as Document>::SHAPE.composites[0]);
    pub(crate) const BY_RECEIVE_DUE: Composite<Self> =
        Composite::new(&<Self as Document>::SHAPE.composites[1]);
    pub(crate) const BY_DEAD_LETTERED_AT: Composite<Self> =
        Composite::new(&<Self as Document>::SHAPE.composites[2]);

    fn new(partition: PartitionKey, slot: String, content: Content) -> Self {
        Self {
            partition_fields: PartitionFields::new(partition),
            slot,
            send_due: None,
            receive_due: None,
            dead_lettered_at: None,
            ttl: None,
            content: Box::new(content),
        }
    }

    pub(crate) fn outgoing(content: Outgoing, due: Timestamp) -> Self {
        let envelope = &content.envelope;
        let (partition, slot) = (envelope.from.partition.clone(), envelope.id().to_string());
        let mut document = Self::new(partition, slot, Content::Outgoing(content));
        document.send_due = Some(due);
        document
    }

    pub(crate) fn stream(partition: PartitionKey, content: Stream, ttl: u32) -> Self {
        let slot = stream_slot(&content.to);
        let mut document = Self::new(partition, slot, Content::Stream(content));
        document.ttl = Some(ttl);
        document
    }

    pub(crate) fn incoming(content: Incoming, due: Timestamp) -> Self {
        let envelope = &content.envelope;
        let (partition, slot) = (envelope.to.partition.clone(), envelope.id().to_string());
        let mut document = Self::new(partition, slot, Content::Incoming(content));
        document.receive_due = Some(due);
        document
    }

    pub(crate) fn seen(partition: PartitionKey, content: Seen, ttl: u32) -> Self {
        let slot = content.stream.clone();
        let mut document = Self::new(partition, slot, Content::Seen(content));
        document.ttl = Some(ttl);
        document
    }

    pub(crate) fn dead(
        partition: PartitionKey,
        content: Dead,
        dead_lettered_at: Timestamp,
    ) -> Self {
        let slot = content.slot();
        let mut document = Self::new(partition, slot, Content::Dead(content));
        document.dead_lettered_at = Some(dead_lettered_at);
        document
    }

    pub(crate) fn answer(partition: PartitionKey, content: Answer, ttl: Option<u32>) -> Self {
        let slot = fingerprint(&[&content.request]);
        let mut document = Self::new(partition, slot, Content::Answer(content));
        document.ttl = ttl;
        document
    }

    /// The document as the service stores it, with the version `etag`.
    pub(crate) fn stored(self, etag: cdb_model::ETag, now: Timestamp) -> Option<Stored<Self>> {
        let id = self.key().to_id().ok()?;
        Some(Stored {
            id,
            document: self,
            etag,
            timestamp: now,
        })
    }
}

/// The slot of the stream document for messages to an address. Hashed, because an address can be
/// longer than an id.
fn stream_slot(to: &Address) -> String {
    fingerprint(&[&to.container, &to.partition.to_header()])
}

/// Hashes texts of any length to 64 hexadecimal digits.
pub(crate) fn fingerprint(texts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            hash.update([0]);
        }
        hash.update(text.as_bytes());
    }
    let bytes = hash.finalize();
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// The key of a [`MessageDocument`] within its partition.
#[derive_where(Clone, Debug)]
pub struct MessageDocumentKey<C> {
    kind: String,
    slot: String,
    marker: PhantomData<fn() -> C>,
}

impl<C> MessageDocumentKey<C> {
    fn new(kind: &str, slot: String) -> Self {
        Self {
            kind: kind.to_owned(),
            slot,
            marker: PhantomData,
        }
    }

    pub(crate) fn stream(to: &Address) -> Self {
        Self::new("stream", stream_slot(to))
    }

    pub(crate) fn seen(stream: &str) -> Self {
        Self::new("seen", stream.to_owned())
    }

    pub(crate) fn incoming(stream: &str, number: u64) -> Self {
        Self::new("in", format!("{stream}-{number}"))
    }

    pub(crate) fn answer(request: &str) -> Self {
        Self::new("answer", fingerprint(&[request]))
    }

    pub(crate) fn dead(slot: &str) -> Self {
        Self::new("dead", slot.to_owned())
    }
}

impl<C: Container> DocumentKey for MessageDocumentKey<C> {
    type Document = MessageDocument<C>;
    type Partition = BatchPartition;

    fn to_id(&self) -> Result<ItemId, IdError> {
        IdWriter::new("MessageDocument")
            .field("kind", &self.kind)
            .literal(":mail:")
            .field("slot", &self.slot)
            .finish()
    }

    fn parse(id: &str) -> Result<Self, IdError> {
        let mut reader = IdReader::new("MessageDocument", id);
        let kind: String = reader.field("kind")?;
        reader.literal(":mail:")?;
        let slot: String = reader.field("slot")?;
        reader.finish()?;
        Ok(Self::new(&kind, slot))
    }

    fn partition(&self) -> BatchPartition {
        BatchPartition
    }
}

const fn field(name: &'static str, path: &'static str, indexing: FieldIndexing) -> FieldShape {
    FieldShape {
        name,
        path,
        ordered: matches!(indexing, FieldIndexing::Indexed),
        indexing,
        optional: false,
    }
}

/// Discriminator, then due time: serves the query for due documents and its order.
macro_rules! composite {
    ($name:literal, $path:literal) => {
        CompositeShape {
            name: $name,
            paths: &[
                CompositePath {
                    path: CompositeTarget::Discriminator,
                    direction: Direction::Ascending,
                },
                CompositePath {
                    path: CompositeTarget::Path($path),
                    direction: Direction::Ascending,
                },
            ],
        }
    };
}

impl<C: Container> Document for MessageDocument<C> {
    type Key = MessageDocumentKey<C>;

    const SHAPE: &'static DocumentShape = &DocumentShape {
        name: "MessageDocument",
        discriminator: "mail",
        id: &[
            IdSegment::Field("kind"),
            IdSegment::Literal(":mail:"),
            IdSegment::Field("slot"),
        ],
        partition_key: C::PARTITION_KEY,
        fields: &[
            field("send_due", "/mailOut", FieldIndexing::Indexed),
            field("receive_due", "/mailIn", FieldIndexing::Indexed),
            field("dead_lettered_at", "/mailDead", FieldIndexing::Indexed),
            field("slot", "/slot", FieldIndexing::NotIndexed),
            field("ttl", "/ttl", FieldIndexing::NotIndexed),
            field("content", "/mail", FieldIndexing::Excluded),
        ],
        composites: &[
            composite!("BY_SEND_DUE", "/mailOut"),
            composite!("BY_RECEIVE_DUE", "/mailIn"),
            composite!("BY_DEAD_LETTERED_AT", "/mailDead"),
        ],
        ttl: Some("/ttl"),
        ..DocumentShape::EMPTY
    };

    fn field_codec() -> FieldCodec<Self> {
        FieldCodec::serde()
    }

    fn key(&self) -> MessageDocumentKey<C> {
        MessageDocumentKey::new(self.content.kind(), self.slot.clone())
    }

    fn partition_key(&self) -> PartitionKey {
        self.partition_fields.key().clone()
    }
}

impl<C: Container> Queryable for MessageDocument<C> {
    const SHAPES: &'static [&'static DocumentShape] = &[<Self as Document>::SHAPE];
    const IS_PARTIAL: bool = true;
}

impl<C: Container> QueriedIn<C> for MessageDocument<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    fn read_stored(json: &str) -> Result<Stored<Self>, DecodeError> {
        decode::<C, Self>(json)
    }
}
