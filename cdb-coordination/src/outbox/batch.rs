//! A change to one partition, and the messages that tell of it: what is committed together.

use cdb_model::{Batch, Container, PartitionKey};
use serde::ser::Error as _;

use crate::message::{Address, Envelope, MAX_MESSAGE_BYTES, Message};

/// A change that is not committed yet, with its messages. Made by [`Messaging::batch`](crate::Messaging::batch), or given
/// to a handler that receives a message.
///
/// ```
/// use cdb_coordination::{OutboxBatch, Messaging};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, Placed, Shop, order};
/// # shop::with_shop(async |shop| {
///
/// let messaging = Messaging::builder(shop).start();
/// let mut batch: OutboxBatch<Shop> = messaging.batch("ann");
/// batch.changes().create(&order(7))?;
/// batch.send("warehouse", &Placed { number: 7 })?;
/// messaging.commit(batch).await?; // the order and the message, or neither
/// assert!(messaging.container().read(&OrderKey::new("ann", 7_u64)).await?.is_some());
/// # messaging.stop().await; Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct OutboxBatch<C> {
    changes: Batch<C>,
    home: Address,
    unsent: Vec<Unsent>,
}

/// A message without a number.
#[derive(Clone, Debug)]
pub(crate) struct Unsent {
    pub(crate) to: Address,
    pub(crate) message_type: String,
    pub(crate) payload: String,
}

impl<C: Container> OutboxBatch<C> {
    pub(crate) fn new(home: Address) -> Self {
        Self {
            changes: Batch::new(&home.partition),
            home,
            unsent: Vec::new(),
        }
    }

    /// The change. It shares the limits of a batch with the messages: an operation for each message, and one for each
    /// partition that any of them goes to.
    pub fn changes(&mut self) -> &mut Batch<C> {
        &mut self.changes
    }

    /// The partition that is changed, which the messages come from.
    pub fn partition(&self) -> &PartitionKey {
        &self.home.partition
    }

    /// Adds a message to a partition of the same container; its own partition is one like any other.
    ///
    /// Messages from one partition to another are received in the order in which they were committed, and within a
    /// batch in the order in which they were added.
    ///
    /// # Errors
    /// When the message cannot be written as JSON, or takes more than 900 KB.
    pub fn send<M: Message>(
        &mut self,
        partition: impl Into<PartitionKey>,
        message: &M,
    ) -> Result<(), serde_json::Error> {
        let container = self.home.container.clone();
        self.send_to(container, partition, message)
    }

    /// Adds a message to a partition of another container, which the `Messaging` must have a
    /// [`route`](crate::MessagingBuilder::route) to.
    ///
    /// # Errors
    /// When the message cannot be written as JSON, or takes more than 900 KB.
    pub fn send_to<M: Message>(
        &mut self,
        container: impl Into<String>,
        partition: impl Into<PartitionKey>,
        message: &M,
    ) -> Result<(), serde_json::Error> {
        let payload = serde_json::to_string(message)?;
        if payload.len() > MAX_MESSAGE_BYTES {
            return Err(serde_json::Error::custom(format!(
                "a `{}` of {} bytes; a message takes {MAX_MESSAGE_BYTES}, so send where its contents are stored",
                M::TYPE,
                payload.len()
            )));
        }
        self.unsent.push(Unsent {
            to: Address {
                container: container.into(),
                partition: partition.into(),
            },
            message_type: M::TYPE.to_owned(),
            payload,
        });
        Ok(())
    }

    /// Adds a message that was given up, to be sent once more.
    pub(crate) fn send_again(&mut self, envelope: &Envelope) {
        self.unsent.push(Unsent {
            to: envelope.to.clone(),
            message_type: envelope.message_type.clone(),
            payload: envelope.payload.clone().unwrap_or_default(),
        });
    }

    pub(crate) fn contents(&self) -> &Batch<C> {
        &self.changes
    }

    pub(crate) fn home(&self) -> &Address {
        &self.home
    }

    pub(crate) fn unsent(&self) -> &[Unsent] {
        &self.unsent
    }
}
