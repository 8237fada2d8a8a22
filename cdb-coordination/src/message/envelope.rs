//! A message with everything that is written on its envelope.

use std::fmt;

use cdb_model::{PartitionKey, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What can be sent: any serializable type, with the name that tells its receiver what it is.
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
    /// The name that is stored. It outlives the Rust type: messages are on their way while programs are replaced.
    const TYPE: &'static str;
}

/// Most bytes of a message as JSON. It is stored as text inside JSON, where every quotation mark takes two bytes, beside
/// the reasons of failed attempts, in a document of at most 2 MB.
pub(crate) const MAX_MESSAGE_BYTES: usize = 900 * 1024;

/// A partition of some container of the database.
///
/// ```
/// use cdb_coordination::Address;
///
/// let desk = Address { container: "orders".into(), partition: "ann".into() };
/// assert_eq!(desk.to_string(), r#"orders["ann"]"#); // so it stands in logs
/// ```
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The container's name.
    pub container: String,
    /// The partition in it.
    pub partition: PartitionKey,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.container, self.partition)
    }
}

/// Names a message, for ever and everywhere: all documents that it becomes derive their ids from it.
///
/// ```
/// use cdb_coordination::MessageId;
///
/// // The same at every attempt: what another system can tell a repetition by.
/// let id = MessageId { stream: "6f1e".into(), number: 7 };
/// assert_eq!(id.to_string(), "6f1e-7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The stream from one partition to another that it belongs to.
    pub stream: String,
    /// Its place in the stream, from 1. A message that was redriven from an inbox has left its stream and has number 0.
    pub number: u64,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.number)
    }
}

/// A message on its way.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Envelope {
    pub(crate) stream: String,
    pub(crate) number: u64,
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) message_type: String,
    /// JSON as text, so that numbers come out as they went in; the service keeps numbers as doubles. `None` when the
    /// message was given up on its way: what arrives is its place in the stream alone, so that later ones can pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) payload: Option<String>,
    pub(crate) sent_at: Timestamp,
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
