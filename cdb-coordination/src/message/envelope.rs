//! A message with its addresses, stream and number.

use std::fmt;

use cdb_model::{Document, PartitionKey, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::context::MessageContext;

/// A type that can be sent as a message. Its name tells the receiver how to read the payload.
///
/// ```
/// use cdb_coordination::Message;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct PaymentRequested { order: String, cents: u64 }
///
/// impl Message for PaymentRequested {
///     const TYPE: &'static str = "payment-requested";
/// }
/// ```
pub trait Message: Serialize + DeserializeOwned + Send + 'static {
    /// The stored name. It must stay the same while messages of this type are on their way, also
    /// over releases.
    const TYPE: &'static str;
}

/// A message about one document in the partition that receives it.
pub trait DocumentMessage: Message {
    /// The type of the document.
    type Document: Document;

    /// The key of the document.
    fn document_key(&self) -> <Self::Document as Document>::Key;
}

/// The largest message, as JSON. The payload is stored as a JSON string, where every quotation mark
/// takes two bytes, together with the reasons of failed attempts. A document may have 2 MB.
pub(crate) const MAX_MESSAGE_BYTES: usize = 900 * 1024;

/// A partition of a container in the same database.
///
/// ```
/// use cdb_coordination::message::MessageAddress;
///
/// let desk = MessageAddress { container: "orders".into(), partition: "ann".into() };
/// assert_eq!(desk.to_string(), r#"orders["ann"]"#); // as logs show it
/// ```
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageAddress {
    /// The container's name.
    pub container: String,
    /// The partition key.
    pub partition: PartitionKey,
}

impl fmt::Display for MessageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.container, self.partition)
    }
}

/// The id of a message. The ids of all its documents are derived from it.
///
/// ```
/// use cdb_coordination::message::MessageId;
///
/// // The same at every attempt, so other systems can detect a repetition.
/// let id = MessageId { stream: "6f1e".into(), number: 7 };
/// assert_eq!(id.to_string(), "6f1e-7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The stream from the sender's to the receiver's partition.
    pub stream: String,
    /// The position in the stream, from 1. A message that was redriven from an inbox belongs to no
    /// stream and has number 0.
    pub number: u64,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.number)
    }
}

/// A message with its addresses, stream and number.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Envelope {
    pub(crate) stream: String,
    pub(crate) number: u64,
    pub(crate) from: MessageAddress,
    pub(crate) to: MessageAddress,
    pub(crate) message_type: String,
    /// The message as JSON text, because the service stores numbers as doubles. `None` after the
    /// message was dead-lettered in the outbox: only its number is delivered, so that later
    /// messages of the stream can be received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) payload: Option<String>,
    pub(crate) sent_at: Timestamp,
    #[serde(default, skip_serializing_if = "MessageContext::is_empty")]
    pub(crate) context: MessageContext,
}

impl Envelope {
    pub(crate) fn id(&self) -> MessageId {
        MessageId {
            stream: self.stream.clone(),
            number: self.number,
        }
    }

    pub(crate) fn without_payload(&self) -> Self {
        Self {
            payload: None,
            ..self.clone()
        }
    }
}
