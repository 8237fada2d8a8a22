//! The receivers of published messages.

use std::collections::HashMap;

use cdb_model::PartitionKey;

use crate::message::Message;

/// A receiver of the published messages of a type: a partition, and which of its handlers.
///
/// ```
/// use cdb_coordination::outbox::Receiver;
/// use cdb_coordination::{Messaging, Received};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Placed;
/// # shop::with_shop(async |shop| {
///
/// let messaging = Messaging::builder(shop)
///     .on(async |_: Received<Placed>, batch| Ok(batch))
///     .receiver::<Placed>(Receiver::new("warehouse"))
///     .receiver::<Placed>(Receiver::new("accounts").handler("bill"))
///     .on_handler("bill", async |_: Received<Placed>, batch| Ok(batch))
///     .start()?;
/// let mut batch = messaging.batch("ann");
/// assert_eq!(batch.publish(&Placed { number: 7 })?, 2);
/// messaging.commit(batch).await?;
/// # messaging.stop().await; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// `None` for the container of the sender.
    pub(super) container: Option<String>,
    pub(super) partition: PartitionKey,
    pub(super) handler: Option<String>,
}

impl Receiver {
    /// The handler of the message type in a partition of the sender's container.
    pub fn new(partition: impl Into<PartitionKey>) -> Self {
        Self {
            container: None,
            partition: partition.into(),
            handler: None,
        }
    }

    /// Chooses another container, which must be a [`route`](crate::messaging::MessagingBuilder::route).
    #[must_use]
    pub fn in_container(mut self, name: impl Into<String>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Chooses a handler of [`MessagingBuilder::on_handler`](crate::messaging::MessagingBuilder::on_handler).
    #[must_use]
    pub fn handler(mut self, name: impl Into<String>) -> Self {
        self.handler = Some(name.into());
        self
    }
}

/// The receivers by message type.
#[derive(Debug, Default)]
pub(crate) struct Receivers(HashMap<&'static str, Vec<Receiver>>);

impl Receivers {
    pub(crate) fn add<M: Message>(&mut self, receiver: Receiver) {
        let receivers = self.0.entry(M::TYPE).or_default();
        if !receivers.contains(&receiver) {
            receivers.push(receiver);
        }
    }

    pub(super) fn of<M: Message>(&self) -> &[Receiver] {
        self.0.get(M::TYPE).map_or(&[], Vec::as_slice)
    }
}
