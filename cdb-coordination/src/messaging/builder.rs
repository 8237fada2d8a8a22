//! Sets up messaging on a container, and offers its operations.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use cdb_client::partitions::SharedCall;
use cdb_client::{ContainerClient, CosmosClient};
use cdb_model::container::MemberOf;
use cdb_model::document::Partition as _;
use cdb_model::operation::OperationIndex;
use cdb_model::{Container, DocumentKey as _, ETag, PartitionKey, Stored};
use derive_where::derive_where;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::dead_letter::DeadLetters;
use super::retrying::Retrying;
use crate::endpoint::{Arrival, Handled, Hints, Inner, MessagingConfig, Received};
use crate::message::{
    DocumentMessage, HandlerError, Handlers, Message, MessageAddress, MessageDocument,
};
use crate::outbox::{
    Dispatcher, OutboxBatch, OutboxError, PreparedBatch, Receiver, Receivers, Route, Streams,
    Terms, commit,
};
use crate::retry::Jitter;
use crate::timing::TimingError;

/// Sets up a [`Messaging`].
///
/// ```
/// use cdb_coordination::messaging::MessagingConfig;
/// use cdb_coordination::{HandlerError, Messaging, Received};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Placed;
/// # shop::with_shop(async |shop| {
///
/// let messaging = Messaging::builder(shop)
///     .config(MessagingConfig::default().with_concurrency(8))
///     .on(async |message: Received<Placed>, batch| match message.message.number {
///         0 => Err(HandlerError::permanently("orders count from 1")), // a dead letter
///         _ => Ok(batch), // committed together with the receipt
///     })
///     .start()?;
/// messaging.stop().await;
/// # Ok(()) }).unwrap();
/// ```
pub struct MessagingBuilder<C> {
    container: ContainerClient<C>,
    config: MessagingConfig,
    routes: HashMap<String, Box<dyn Route>>,
    handlers: Handlers<Arrival, OutboxBatch<C>>,
    receivers: Receivers,
    jitter: Jitter,
}

impl<C> fmt::Debug for MessagingBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessagingBuilder")
            .field("container", &self.container)
            .field("config", &self.config)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

impl<C: Container> MessagingBuilder<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Sets the configuration.
    #[must_use]
    pub fn config(mut self, config: MessagingConfig) -> Self {
        self.config = config.limited();
        self
    }

    /// Adds another container of the database as a target of messages. Some process must run
    /// `Messaging` on that container.
    #[must_use]
    pub fn route<T: Container>(mut self, container: ContainerClient<T>) -> Self
    where
        MessageDocument<T>: MemberOf<T>,
    {
        let name = container.name().to_owned();
        self.routes.insert(name, Box::new(container));
        self
    }

    /// Registers the handler of messages of type `M`. The handler adds its effect and further
    /// messages to the batch that it gets and returns. That batch is committed together with the
    /// receipt of the message. The handler may run more than once, also in several processes at
    /// once, but only one of its batches is committed. Side effects outside of the batch are not
    /// undone. A handler has no time limit. It is dropped at an `await` if another process has
    /// claimed or received its message.
    ///
    /// Register handlers for all types that are sent to the container: a message of an unknown type
    /// becomes a dead letter.
    #[must_use]
    pub fn on<M, F, Fut>(self, handler: F) -> Self
    where
        M: Message,
        F: Fn(Received<M>, OutboxBatch<C>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Handled<C>> + Send + 'static,
    {
        self.on_handler(String::new(), handler)
    }

    /// Registers a handler by name, for messages of [`OutboxBatch::send_for`]. Several handlers of
    /// one message type can each have a name. A message for a name without a handler becomes a dead
    /// letter.
    #[must_use]
    pub fn on_handler<M, F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        M: Message,
        F: Fn(Received<M>, OutboxBatch<C>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Handled<C>> + Send + 'static,
    {
        let handler = move |message, arrival: Arrival| {
            // Within the context of the message, which the batch begins with.
            let batch = OutboxBatch::new(arrival.envelope.to.clone())
                .with_receivers(arrival.receivers.clone());
            handler(arrival.received(message), batch)
        };
        self.handlers.on(name.into(), handler);
        self
    }

    /// Registers the handler of messages about one document. The handler also gets the document, as
    /// it is now in the partition of the message; a batch with [`Stored::replace`] makes it run
    /// again if the document has changed since.
    ///
    /// A missing document is a failed attempt: it may be created by another message. Its stream waits,
    /// and after the last attempt the message is a dead letter. To go on without the document, read
    /// it in a handler of [`on`](Self::on). While the document cannot be read because the service is
    /// away, no attempt counts.
    ///
    /// ```
    /// use cdb_coordination::message::DocumentMessage;
    /// use cdb_coordination::{Messaging, Received};
    /// use cdb_model::{Document as _, Stored};
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// # use shop::{Order, OrderKey, Placed, order};
    /// impl DocumentMessage for Placed {
    ///     type Document = Order;
    ///
    ///     fn document_key(&self) -> OrderKey {
    ///         OrderKey::new("ann", self.number)
    ///     }
    /// }
    /// # shop::with_shop(async |shop| {
    ///
    /// let messaging = Messaging::builder(shop)
    ///     .on_document(async |mut order: Stored<Order>, _: Received<Placed>, mut batch| {
    ///         order.document.state = "checked".to_owned();
    ///         batch.add(order.replace())?;
    ///         Ok(batch)
    ///     })
    ///     .start()?;
    /// # messaging.stop().await; Ok(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn on_document<M, F, Fut>(self, handler: F) -> Self
    where
        M: DocumentMessage,
        M::Document: MemberOf<C>,
        F: Fn(Stored<M::Document>, Received<M>, OutboxBatch<C>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Handled<C>> + Send + 'static,
    {
        let (latest, handler) = (self.container.latest_committed(), Arc::new(handler));
        self.on(move |received: Received<M>, batch: OutboxBatch<C>| {
            let (latest, handler) = (latest.clone(), handler.clone());
            let key = received.message.document_key();
            let address = key.in_partition(batch.partition());
            let own = key.partition();
            let is_here = own.known().is_none_or(|own| own == batch.partition());
            async move {
                if !is_here {
                    let id = key.to_id()?;
                    let reason =
                        format!("the document `{id}` is in another partition than the receiver");
                    return Err(HandlerError::permanently(reason));
                }
                match latest.read(address).await {
                    Ok(Some(document)) => handler(document, received, batch).await,
                    Ok(None) => {
                        let id = key.to_id()?;
                        let reason =
                            format!("`{id}` does not exist; create it and redrive the message");
                        Err(HandlerError::temporarily(reason))
                    }
                    Err(error) => Err(HandlerError::unread(&error)),
                }
            }
        })
    }

    /// Registers a receiver of the messages of type `M` that
    /// [`OutboxBatch::publish`](crate::OutboxBatch::publish) sends. Register the same receivers in
    /// all processes that publish. A second registration of a receiver changes nothing.
    #[must_use]
    pub fn receiver<M: Message>(mut self, receiver: Receiver) -> Self {
        self.receivers.add::<M>(receiver);
        self
    }

    /// Sets the source of jitter for retry delays; random by default.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Starts delivering and, with handlers, receiving, in tasks of the current Tokio runtime.
    ///
    /// # Errors
    /// When two durations of the configuration do not fit.
    pub fn start(self) -> Result<Messaging<C>, TimingError> {
        self.config.check()?;
        Ok(self.start_unchecked())
    }

    pub(super) fn start_unchecked(self) -> Messaging<C> {
        let stop = CancellationToken::new();
        let inner = Arc::new_cyclic(|myself| Inner {
            hints: Hints::new(self.config.concurrency),
            container: self.container,
            config: self.config,
            routes: self.routes,
            handlers: self.handlers,
            receivers: Arc::new(self.receivers),
            dispatcher: Dispatcher::default(),
            jitter: self.jitter,
            me: uuid::Uuid::new_v4().simple().to_string(),
            stop: stop.clone(),
            tasks: TaskTracker::new(),
            schema_checked: OnceLock::new(),
            agreement: SharedCall::default(),
            myself: myself.clone(),
        });
        inner.start();
        Messaging {
            inner,
            stop_on_drop: Arc::new(stop.drop_guard()),
        }
    }
}

/// Runs the outboxes and inboxes of a container's partitions. Any number of processes may run it on
/// the same container. Clones share one instance, which stops when the last clone is dropped.
///
/// ```
/// use cdb_coordination::{Messaging, Received};
/// use cdb_model::Document as _;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, Placed, order};
/// # shop::with_shop(async |shop| {
///
/// let messaging = Messaging::builder(shop)
///     .on(async |placed: Received<Placed>, mut batch| {
///         let copy = order(placed.message.number);
///         batch.add(Order { customer: "warehouse".into(), ..copy }.create())?;
///         Ok(batch) // committed together with the receipt, so once
///     })
///     .start()?;
///
/// let mut batch = messaging.batch("ann");
/// batch.add(order(7).create())?;
/// batch.send("warehouse", &Placed { number: 7 })?; // in the same batch as the order
/// messaging.commit(batch).await?;
/// messaging.until_idle().await?; // for tests
/// assert!(messaging.container().read(&OrderKey::new("warehouse", 7)).await?.is_some());
/// messaging.stop().await;
/// # Ok(()) }).unwrap();
/// ```
#[derive_where(Clone, Debug)]
pub struct Messaging<C> {
    pub(super) inner: Arc<Inner<C>>,
    stop_on_drop: Arc<DropGuard>,
}

impl<C: Container> Messaging<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Starts the set-up of messaging on a container.
    pub fn builder(container: ContainerClient<C>) -> MessagingBuilder<C> {
        MessagingBuilder {
            container,
            config: MessagingConfig::default(),
            routes: HashMap::new(),
            handlers: Handlers::default(),
            receivers: Receivers::default(),
            jitter: Jitter::random(),
        }
    }

    /// Opens a container, which is created if it is missing, and starts the set-up of messaging on it.
    ///
    /// ```no_run
    /// use cdb_client::CosmosClient;
    /// use cdb_coordination::{Messaging, Received};
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// # use shop::{Placed, Shop};
    ///
    /// async fn start(client: &CosmosClient) -> Result<Messaging<Shop>, Box<dyn std::error::Error>> {
    ///     let messaging = Messaging::open(client, "shop", "orders").await?;
    ///     Ok(messaging.on(async |_: Received<Placed>, batch| Ok(batch)).start()?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the container cannot be opened or created.
    pub async fn open(
        client: &CosmosClient,
        database: &str,
        container: &str,
    ) -> Result<MessagingBuilder<C>, cdb_client::Error> {
        Ok(Self::builder(client.open(database, container).await?))
    }

    /// The container.
    pub fn container(&self) -> &ContainerClient<C> {
        &self.inner.container
    }

    /// Begins a change of a partition. [`commit`](Self::commit) sends it.
    pub fn batch(&self, partition: impl Into<PartitionKey>) -> OutboxBatch<C> {
        let home = MessageAddress {
            container: self.inner.container.name().to_owned(),
            partition: partition.into(),
        };
        OutboxBatch::new(home).with_receivers(self.inner.receivers.clone())
    }

    /// Commits a change and its messages: all or nothing. An empty batch sends nothing. The messages are delivered in the
    /// background, by this process or by any other that runs `Messaging` on the container.
    ///
    /// # Errors
    /// See [`OutboxError`]. After a lost answer the commit reads whether it took place, if the
    /// batch has a message. A container that a newer release has written is refused.
    pub async fn commit(&self, batch: OutboxBatch<C>) -> Result<(), OutboxError> {
        let inner = &self.inner;
        inner.check_schema().await?;
        if batch.operations() == 0 {
            return Ok(());
        }
        let reserved = inner.config.reserved;
        let lifetimes = inner.lifetimes();
        let sent = commit(&inner.container, &batch, reserved, lifetimes, &inner.jitter).await?;
        inner.hand_over(sent);
        Ok(())
    }

    /// Reads the streams of a batch and numbers its messages, for a caller that commits the
    /// operations inside a batch of its own. Sends one read per receiving partition.
    ///
    /// # Errors
    /// When the streams cannot be read, the operations do not fit into one batch, or a newer release
    /// has written the container.
    pub async fn prepare(&self, batch: &OutboxBatch<C>) -> Result<PreparedBatch<C>, OutboxError> {
        let inner = &self.inner;
        inner.check_schema().await?;
        let streams = Streams::read(&inner.container.latest_committed(), batch).await?;
        let token = uuid::Uuid::new_v4().simple().to_string();
        let terms = Terms {
            token: &token,
            now: inner.container.now(),
            reserved: inner.config.reserved,
            lifetimes: inner.lifetimes(),
        };
        Ok(streams.prepare(batch, &terms)?)
    }

    /// Delivers the messages of a prepared batch that was committed. `etag` returns the version that
    /// one of its operations left. Without this call, any process delivers them two seconds later.
    pub fn deliver(
        &self,
        committed: PreparedBatch<C>,
        etag: impl Fn(OperationIndex) -> Option<ETag>,
    ) {
        self.inner.hand_over(committed.sent(etag));
    }

    /// The dead letters of the container.
    pub fn dead_letters(&self) -> DeadLetters<C> {
        DeadLetters::new(self.inner.container.clone(), self.inner.config)
    }

    /// The messages of the container that are retried.
    pub fn retrying(&self) -> Retrying<C> {
        Retrying::new(self.inner.container.clone())
    }

    /// Stops, and waits for the work in progress: the handlers that run, and a round of deliveries.
    /// Other processes deliver and receive the remaining messages.
    pub async fn stop(self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        drop(self.stop_on_drop);
    }
}
