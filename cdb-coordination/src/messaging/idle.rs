//! Waiting until all messages are handled.

use cdb_client::Error;
use cdb_model::container::MemberOf;
use cdb_model::{Container, Query};

use super::builder::Messaging;
use crate::endpoint::Inner;
use crate::message::MessageDocument;
use crate::timing::IDLE_CHECK;

impl<C: Container> Messaging<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Waits until this process delivers and receives nothing, and no message of the container is
    /// due within [`MessagingConfig::reserved`](crate::messaging::MessagingConfig::reserved). For tests, which
    /// then find the effects of all messages.
    ///
    /// A message that waits longer for its next attempt, or that another process has claimed, is not
    /// waited for. Use a timeout: the call waits as long as a handler runs, and without
    /// end if no process can receive a message that is due.
    ///
    /// ```
    /// use cdb_coordination::{Messaging, Received};
    /// use cdb_model::Document as _;
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// # use shop::{OrderKey, Placed, order};
    /// # shop::with_shop(async |shop| {
    ///
    /// let messaging = Messaging::builder(shop)
    ///     .on(async |placed: Received<Placed>, mut batch| {
    ///         batch.add(order(placed.message.number).create())?;
    ///         Ok(batch)
    ///     })
    ///     .start()?;
    /// let mut batch = messaging.batch("bob");
    /// batch.send("ann", &Placed { number: 7 })?;
    /// messaging.commit(batch).await?;
    /// messaging.until_idle().await?;
    /// assert!(messaging.container().read(&OrderKey::new("ann", 7_u64)).await?.is_some());
    /// # messaging.stop().await; Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// When the service cannot be asked for due messages.
    pub async fn until_idle(&self) -> Result<(), Error> {
        let inner = &self.inner;
        // The query does not find what the process holds in memory, and that may change during it.
        while !inner.stop.is_cancelled()
            && (inner.is_working() || inner.has_due().await? || inner.is_working())
        {
            tokio::time::sleep(IDLE_CHECK).await;
        }
        Ok(())
    }
}

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Whether this process delivers or receives. A received message may send others, and a
    /// delivered one is received.
    fn is_working(&self) -> bool {
        self.dispatcher.is_at_work() || self.hints.count() > 0 || self.dispatcher.is_at_work()
    }

    async fn has_due(&self) -> Result<bool, Error> {
        let soon = self.container.now() + self.config.reserved;
        let outgoing = MessageDocument::<C>::SEND_DUE.le(soon);
        let incoming = MessageDocument::<C>::RECEIVE_DUE.le(soon);
        let due = Query::<MessageDocument<C>>::across_partitions().filter(outgoing | incoming);
        Ok(self
            .container
            .latest_committed()
            .query(due.count())
            .first()
            .await?
            != Some(0))
    }
}
