//! A change of one partition with the messages that are committed together with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use cdb_model::container::MemberOf;
use cdb_model::operation::{BatchError, Operation, OperationIndex};
use cdb_model::{Batch, Container, PartitionKey};
use serde::ser::Error as _;

use super::receivers::{Receiver, Receivers};
use crate::message::{Envelope, MAX_MESSAGE_BYTES, Message, MessageAddress, MessageContext};

/// An upper bound of the bytes of an envelope besides payload and context: ids and addresses.
const ENVELOPE_BYTES: usize = 16 * 1024;

/// An upper bound of the bytes of a stream document.
const STREAM_BYTES: usize = 8 * 1024;

/// An uncommitted change with its messages. Created by
/// [`Messaging::batch`](crate::Messaging::batch), or passed to a message handler.
///
/// ```
/// use cdb_coordination::{OutboxBatch, Messaging};
/// use cdb_model::Document as _;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, Placed, Shop, order};
/// # shop::with_shop(async |shop| {
///
/// let messaging = Messaging::builder(shop).start()?;
/// let mut batch: OutboxBatch<Shop> = messaging.batch("ann");
/// batch.add(order(7).create())?;
/// batch.send("warehouse", &Placed { number: 7 })?;
/// messaging.commit(batch).await?; // the order and the message, or neither
/// assert!(messaging.container().read(&OrderKey::new("ann", 7)).await?.is_some());
/// # messaging.stop().await; Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct OutboxBatch<C> {
    changes: Batch<C>,
    home: MessageAddress,
    unsent: Vec<Unsent>,
    context: MessageContext,
    receivers: Arc<Receivers>,
}

/// A message without a number.
#[derive(Clone, Debug)]
pub(crate) struct Unsent {
    pub(crate) to: MessageAddress,
    pub(crate) message_type: String,
    pub(crate) payload: String,
    pub(crate) context: MessageContext,
}

impl<C: Container> OutboxBatch<C> {
    pub(crate) fn new(home: MessageAddress) -> Self {
        Self {
            changes: Batch::new(&home.partition),
            home,
            unsent: Vec::new(),
            context: MessageContext::current(),
            receivers: Arc::default(),
        }
    }

    pub(crate) fn with_receivers(mut self, receivers: Arc<Receivers>) -> Self {
        self.receivers = receivers;
        self
    }

    /// Headers and scope of the messages that are sent from now on. In a handler they begin with
    /// the trace context and the scope of the received message.
    pub fn context(&mut self) -> &mut MessageContext {
        &mut self.context
    }

    /// Adds an operation to the change.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn add<O: Operation>(&mut self, operation: O) -> Result<OperationIndex, BatchError>
    where
        O::Document: MemberOf<C>,
    {
        self.changes.add(operation)
    }

    /// The change. It shares the limits of a batch with the messages: one operation for each
    /// message, and one for each receiving partition.
    pub fn changes(&mut self) -> &mut Batch<C> {
        &mut self.changes
    }

    /// An upper bound of the operations that a commit sends: those of the change, one for each
    /// message, and one for each receiving partition.
    pub fn operations(&self) -> usize {
        self.changes.len() + self.unsent.len() + self.receivers()
    }

    /// An upper bound of the bytes that a commit sends. JSON text at most doubles inside a document.
    pub fn size_bytes(&self) -> usize {
        let message = |unsent: &Unsent| {
            2 * (unsent.payload.len() + unsent.context.size_bytes()) + ENVELOPE_BYTES
        };
        let messages: usize = self.unsent.iter().map(message).sum();
        self.changes.size_bytes() + messages + self.receivers() * STREAM_BYTES
    }

    fn receivers(&self) -> usize {
        let receivers: BTreeSet<&MessageAddress> =
            self.unsent.iter().map(|unsent| &unsent.to).collect();
        receivers.len()
    }

    /// The partition that is changed and sends the messages.
    pub fn partition(&self) -> &PartitionKey {
        &self.home.partition
    }

    /// Adds a message to a partition of the same container. A partition may send to itself.
    ///
    /// Messages between two partitions are received in the order of their commits. Within a batch,
    /// they are received in the order in which they were added.
    ///
    /// # Errors
    /// When the message cannot be serialized, or its JSON has more than 900 KB.
    pub fn send<M: Message>(
        &mut self,
        partition: impl Into<PartitionKey>,
        message: &M,
    ) -> Result<(), serde_json::Error> {
        let container = self.home.container.clone();
        self.send_to(container, partition, message)
    }

    /// Adds a message for one of several handlers of its type:
    /// [`MessagingBuilder::on_handler`](crate::messaging::MessagingBuilder::on_handler). A release without
    /// named handlers runs the handler of the type.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_for<M: Message>(
        &mut self,
        handler: impl Into<String>,
        partition: impl Into<PartitionKey>,
        message: &M,
    ) -> Result<(), serde_json::Error> {
        self.send_copy(&Receiver::new(partition).handler(handler), message)
    }

    /// Sends a message to every receiver of its type, exactly as if it were sent to each alone:
    /// [`MessagingBuilder::receiver`](crate::messaging::MessagingBuilder::receiver). Returns how many there
    /// are; without receivers, no message is added.
    ///
    /// Each receiver has its own copy with its own receipt, attempts and dead letter. A receiver
    /// without a handler for the type gets a dead letter. Receivers in one partition share a stream:
    /// the second waits until the first has received its copy or has it as a dead letter.
    ///
    /// # Errors
    /// As for [`send`](Self::send). No message is added then.
    pub fn publish<M: Message>(&mut self, message: &M) -> Result<usize, serde_json::Error> {
        let (receivers, unsent) = (self.receivers.clone(), self.unsent.len());
        let mut receivers = receivers.of::<M>().iter();
        let sent = receivers.try_for_each(|receiver| self.send_copy(receiver, message));
        if sent.is_err() {
            self.unsent.truncate(unsent);
        }
        sent.map(|()| self.unsent.len() - unsent)
    }

    fn send_copy<M: Message>(
        &mut self,
        receiver: &Receiver,
        message: &M,
    ) -> Result<(), serde_json::Error> {
        let home = &self.home.container;
        let container = receiver.container.as_ref().unwrap_or(home).clone();
        let context = self.context.clone();
        if let Some(handler) = &receiver.handler {
            let headers = &mut self.context.headers;
            headers.insert(MessageContext::HANDLER.to_owned(), handler.clone());
        }
        let sent = self.send_to(container, &receiver.partition, message);
        self.context = context;
        sent
    }

    /// Adds a message to a partition of another container. The container must be a
    /// [`route`](crate::messaging::MessagingBuilder::route).
    ///
    /// # Errors
    /// When the message cannot be serialized, or its JSON has more than 900 KB.
    pub fn send_to<M: Message>(
        &mut self,
        container: impl Into<String>,
        partition: impl Into<PartitionKey>,
        message: &M,
    ) -> Result<(), serde_json::Error> {
        let payload = serde_json::to_string(message)?;
        let bytes = payload.len() + self.context.size_bytes();
        if bytes > MAX_MESSAGE_BYTES {
            return Err(serde_json::Error::custom(format!(
                "message `{}` has {bytes} bytes of {MAX_MESSAGE_BYTES} allowed; store the contents in a document and send its key",
                M::TYPE
            )));
        }
        self.unsent.push(Unsent {
            to: MessageAddress {
                container: container.into(),
                partition: partition.into(),
            },
            message_type: M::TYPE.to_owned(),
            payload,
            context: self.context.clone(),
        });
        Ok(())
    }

    /// Adds the message of a dead letter again.
    pub(crate) fn send_again(&mut self, envelope: &Envelope) {
        self.unsent.push(Unsent {
            to: envelope.to.clone(),
            message_type: envelope.message_type.clone(),
            payload: envelope.payload.clone().unwrap_or_default(),
            context: envelope.context.clone(),
        });
    }

    pub(crate) fn contents(&self) -> &Batch<C> {
        &self.changes
    }

    pub(crate) fn home(&self) -> &MessageAddress {
        &self.home
    }

    pub(crate) fn unsent(&self) -> &[Unsent] {
        &self.unsent
    }
}
