//! A bridge between a message broker and the lanes of a coordinator.

use std::sync::Arc;

use async_trait::async_trait;
use cdb_coordination::HandlerError;
use tokio_util::sync::CancellationToken;

use super::handler::{WorkContext, WorkHandlers};
use super::processor::{RunConfig, WorkRun};
use crate::coordinator::handle::WorkCoordinator;
use crate::error::WorkError;
use crate::flush::interval::Interval;
use crate::flush::strategy::FlushStrategy as _;
use crate::streams::documents::{Lane, WorkMessage};
use crate::streams::new_work::NewWork;
use crate::timing::BROKER_PAUSE;

/// A message broker with acknowledgements, for example NATS JetStream, RabbitMQ or Service Bus.
/// [`WorkCoordinator::bridge`] connects it.
///
/// Delivery is at least once in both directions. The inbox drops duplicates by the message id. The
/// receivers of published messages must do the same.
///
/// ```
/// use async_trait::async_trait;
/// use cdb_coordination::HandlerError;
/// use cdb_work::{Broker, NewWork, WorkMessage};
/// use tokio::sync::{Mutex, mpsc};
///
/// struct Channel { to: mpsc::Sender<String>, from: Mutex<mpsc::Receiver<(String, String)>> }
///
/// #[async_trait]
/// impl Broker for Channel {
///     type Delivery = ();
///
///     async fn publish(&self, message: &WorkMessage) -> Result<(), HandlerError> {
///         Ok(self.to.send(message.body.clone()).await?)
///     }
///
///     async fn receive(&self) -> Result<Option<(NewWork, ())>, HandlerError> {
///         let received = self.from.lock().await.recv().await;
///         Ok(received.map(|(id, body)| (NewWork::inbox("orders", id).with_body("order", body), ())))
///     }
///
///     async fn acknowledge(&self, _: ()) -> Result<(), HandlerError> {
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Broker: Send + Sync + 'static {
    /// What the broker needs to acknowledge a message.
    type Delivery: Send;

    /// Publishes a message of the outbox. Returns when the broker has stored it.
    async fn publish(&self, message: &WorkMessage) -> Result<(), HandlerError>;

    /// Waits for the next message; `None` when the broker will deliver no more. The stream and the
    /// message id of the work must be the same at every delivery. Cancel safe.
    async fn receive(&self) -> Result<Option<(NewWork, Self::Delivery)>, HandlerError>;

    /// Tells the broker that the message is stored. Messages without an acknowledgement are
    /// delivered again.
    async fn acknowledge(&self, delivery: Self::Delivery) -> Result<(), HandlerError>;
}

impl WorkCoordinator {
    /// Publishes the messages of the outbox to a broker, and stores received messages in the inbox.
    /// A received message is acknowledged when it is stored. [`RunConfig::lane`] is ignored. Run
    /// the handlers of the inbox with [`run`](Self::run) on the lane [`Lane::Inbox`].
    ///
    /// `cargo run -p cdb-work --example broker_bridge` is a whole program.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn bridge<B: Broker>(&self, config: RunConfig, broker: Arc<B>) -> WorkRun {
        let stop = CancellationToken::new();
        let publisher = broker.clone();
        let handlers = WorkHandlers::new().otherwise(move |work: WorkContext| {
            let publisher = publisher.clone();
            async move {
                publisher.publish(work.message()).await?;
                Ok(work.done())
            }
        });
        let publishing = self.run(config.with_lane(Lane::Outbox), handlers);
        let receiver = Receiver {
            stored: self.interval(config.flush),
            broker,
        };
        let is_over = stop.clone();
        let task = tokio::spawn(async move {
            let ended = receiver.run(&is_over).await;
            is_over.cancelled().await;
            publishing.stop().await.and(ended)
        });
        WorkRun {
            task,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        }
    }
}

struct Receiver<B> {
    broker: Arc<B>,
    stored: Interval,
}

impl<B: Broker> Receiver<B> {
    /// Receives until the stop or the end of the broker's messages.
    async fn run(self, stop: &CancellationToken) -> Result<(), WorkError> {
        let acknowledging = tokio_util::task::TaskTracker::new();
        loop {
            let received = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                received = self.broker.receive() => received,
            };
            let (new, delivery) = match received {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(failed) => {
                    tracing::warn!(reason = failed.reason(), "the broker delivers no messages");
                    tokio::time::sleep(BROKER_PAUSE).await;
                    continue;
                }
            };
            // Submitting waits when entries pile up.
            let receipt = self.stored.store(new).await;
            let broker = self.broker.clone();
            acknowledging.spawn(async move {
                if let Err(error) = receipt.settled().await {
                    tracing::warn!(%error, "a received message was not stored; the broker delivers it again");
                } else if let Err(failed) = broker.acknowledge(delivery).await {
                    tracing::warn!(reason = failed.reason(), "a message was not acknowledged");
                }
            });
        }
        let closed = self.stored.close().await;
        acknowledging.close();
        acknowledging.wait().await;
        closed
    }
}
