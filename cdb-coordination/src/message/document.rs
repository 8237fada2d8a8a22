//! The document type of outbox, inbox and dead letters, for containers of any partition key.

use cdb_model::{Container, Document, DocumentKey, PartitionKey, Stored, Timestamp};
use derive_where::derive_where;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::content::{Answer, Content, Dead, Incoming, Outgoing, Seen, Stream};
use super::envelope::MessageAddress;
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
#[derive(Document, Serialize, Deserialize)]
#[derive_where(Clone, Debug)]
#[serde(rename_all = "camelCase", bound = "C: Container")]
#[document(type = "mail", id = "{kind}:mail:{slot}", id_part(kind: String))]
// The discriminator, then the due time: the query for due documents and its order.
#[document(composite(BY_SEND_DUE = r#type, send_due))]
#[document(composite(BY_RECEIVE_DUE = r#type, receive_due))]
#[document(composite(BY_DEAD_LETTERED_AT = r#type, dead_lettered_at))]
#[document(bound = "C: Container")]
pub struct MessageDocument<C> {
    #[serde(flatten)]
    #[document(partition_key)]
    partition_fields: PartitionFields<C>,
    pub(crate) slot: String,
    /// When the reconciler may deliver the message; only on outgoing messages.
    #[document(index)]
    #[serde(rename = "mailOut", default, skip_serializing_if = "Option::is_none")]
    pub(crate) send_due: Option<Timestamp>,
    /// When any process may receive the message; only on incoming messages.
    #[document(index)]
    #[serde(rename = "mailIn", default, skip_serializing_if = "Option::is_none")]
    pub(crate) receive_due: Option<Timestamp>,
    /// When the message became a dead letter.
    #[document(index)]
    #[serde(rename = "mailDead", default, skip_serializing_if = "Option::is_none")]
    pub(crate) dead_lettered_at: Option<Timestamp>,
    /// How many attempts failed; only on messages that are retried. Derived from the content, which
    /// is not indexed.
    #[document(index)]
    #[serde(
        rename = "mailFailed",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) failed_attempts: Option<u32>,
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
    /// Boxed to keep the container's enum small.
    #[document(unindexed, paths(claimedBy: Option<String>, started: u32))]
    #[serde(rename = "mail")]
    pub(crate) content: Box<Content>,
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

impl<C: Container> MessageDocument<C> {
    /// The kind of the content, which is part of the id.
    fn kind(&self) -> String {
        self.content.kind().to_owned()
    }

    fn new(partition: PartitionKey, slot: String, content: Content) -> Self {
        Self {
            partition_fields: PartitionFields::new(partition),
            slot,
            send_due: None,
            receive_due: None,
            dead_lettered_at: None,
            failed_attempts: None,
            ttl: None,
            content: Box::new(content),
        }
    }

    pub(crate) fn outgoing(content: Outgoing, due: Timestamp) -> Self {
        let envelope = &content.envelope;
        let (partition, slot) = (envelope.from.partition.clone(), envelope.id().to_string());
        let failed = content.failed_attempts();
        let mut document = Self::new(partition, slot, Content::Outgoing(content));
        document.send_due = Some(due);
        document.failed_attempts = (failed > 0).then_some(failed);
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
        let failed = content.failed_attempts();
        let mut document = Self::new(partition, slot, Content::Incoming(content));
        document.receive_due = Some(due);
        document.failed_attempts = (failed > 0).then_some(failed);
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
fn stream_slot(to: &MessageAddress) -> String {
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

impl<C: Container> MessageDocumentKey<C> {
    pub(crate) fn stream(to: &MessageAddress) -> Self {
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
