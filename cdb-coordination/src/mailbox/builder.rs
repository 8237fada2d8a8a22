//! Setting up a mailbox, and what its owner does with it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use cdb_client::ContainerClient;
use cdb_model::{Container, MemberOf, PartitionKey};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::config::MailboxConfig;
use super::inner::Inner;
use crate::inbox::{Handled, Handlers, Hints, Received};
use crate::mail::{Address, Mail, Message};
use crate::outbox::{DeadLetters, Dispatcher, Draft, Jitter, OutboxError, Route, commit};

/// Sets up a [`Mailbox`].
///
/// ```
/// use cdb_coordination::{Failed, Mailbox, MailboxConfig, Received};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Placed;
/// # shop::with_shop(async |shop| {
///
/// let mailbox = Mailbox::builder(shop)
///     .config(MailboxConfig::default().with_concurrency(8))
///     .on(async |message: Received<Placed>, draft| match message.message.number {
///         0 => Err(Failed::permanently("orders count from 1")), // a dead letter
///         _ => Ok(draft), // what the handler added to the draft takes place together with the receipt
///     })
///     .start();
/// mailbox.stop().await;
/// # Ok(()) }).unwrap();
/// ```
pub struct MailboxBuilder<C> {
    container: ContainerClient<C>,
    config: MailboxConfig,
    routes: HashMap<String, Box<dyn Route>>,
    handlers: Handlers<C>,
    jitter: Jitter,
}

impl<C> fmt::Debug for MailboxBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MailboxBuilder")
            .field("container", &self.container)
            .field("config", &self.config)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

impl<C: Container> MailboxBuilder<C>
where
    Mail<C>: MemberOf<C>,
{
    /// Settings other than the default.
    #[must_use]
    pub fn config(mut self, config: MailboxConfig) -> Self {
        self.config = config;
        self
    }

    /// Another container of the database that messages may go to. It has a mailbox of its own, in this program or another.
    #[must_use]
    pub fn route<T: Container>(mut self, container: ContainerClient<T>) -> Self
    where
        Mail<T>: MemberOf<T>,
    {
        let name = container.name().to_owned();
        self.routes.insert(name, Box::new(container));
        self
    }

    /// Receives messages of type `M`. The handler reads what it needs, adds its effect to the draft's batch, and further
    /// messages to the draft; then all of it is committed together with the fact that the message was received. It may
    /// run more than once, and by several processes at once: only one of its drafts is committed. What it does besides
    /// the draft is not taken back.
    ///
    /// A mailbox that receives should know all types that are sent to its container: what it does not know becomes a dead
    /// letter.
    #[must_use]
    pub fn on<M, F, Fut>(mut self, handler: F) -> Self
    where
        M: Message,
        F: Fn(Received<M>, Draft<C>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Handled<C>> + Send + 'static,
    {
        self.handlers.add(handler);
        self
    }

    /// Where the spread of waiting times is drawn from; random by default.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Starts delivering and, if there are handlers, receiving, in tasks of the current Tokio runtime.
    pub fn start(self) -> Mailbox<C> {
        let stop = CancellationToken::new();
        let inner = Arc::new_cyclic(|myself| Inner {
            hints: Hints::new(self.config.concurrency),
            container: self.container,
            config: self.config,
            routes: self.routes,
            handlers: self.handlers,
            dispatcher: Dispatcher::default(),
            jitter: self.jitter,
            me: uuid::Uuid::new_v4().simple().to_string(),
            stop: stop.clone(),
            tasks: TaskTracker::new(),
            myself: myself.clone(),
        });
        inner.start();
        Mailbox {
            inner,
            stop_on_drop: Arc::new(stop.drop_guard()),
        }
    }
}

/// Outbox and inbox of a container's partitions. Any number of processes may run one on the same container. Clones are the
/// same mailbox; it stops with the last of them.
///
/// ```
/// use cdb_coordination::{Mailbox, Received};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, Placed, order};
/// # shop::with_shop(async |shop| {
///
/// let mailbox = Mailbox::builder(shop)
///     .on(async |placed: Received<Placed>, mut draft| {
///         let copy = order(placed.message.number);
///         draft.batch().create(&Order { customer: "warehouse".into(), ..copy })?;
///         Ok(draft) // takes place together with the receipt, so once
///     })
///     .start();
///
/// let mut draft = mailbox.draft("ann");
/// draft.batch().create(&order(7))?;
/// draft.send("warehouse", &Placed { number: 7 })?; // in the same batch as the order
/// mailbox.commit(draft).await?;
/// # let copied = OrderKey::new("warehouse", 7_u64);
/// # while mailbox.container().read(&copied).await?.is_none() {
/// #     tokio::time::sleep(std::time::Duration::from_millis(10)).await;
/// # }
/// mailbox.stop().await;
/// # Ok(()) }).unwrap();
/// ```
pub struct Mailbox<C> {
    pub(super) inner: Arc<Inner<C>>,
    stop_on_drop: Arc<DropGuard>,
}

impl<C> Clone for Mailbox<C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            stop_on_drop: self.stop_on_drop.clone(),
        }
    }
}

impl<C> fmt::Debug for Mailbox<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<C: Container> Mailbox<C>
where
    Mail<C>: MemberOf<C>,
{
    /// Starts setting up a mailbox on a container.
    pub fn builder(container: ContainerClient<C>) -> MailboxBuilder<C> {
        MailboxBuilder {
            container,
            config: MailboxConfig::default(),
            routes: HashMap::new(),
            handlers: Handlers::default(),
            jitter: Jitter::random(),
        }
    }

    /// The container.
    pub fn container(&self) -> &ContainerClient<C> {
        &self.inner.container
    }

    /// Begins a change to a partition. Nothing is sent before [`commit`](Self::commit).
    pub fn draft(&self, partition: impl Into<PartitionKey>) -> Draft<C> {
        Draft::new(Address {
            container: self.inner.container.name().to_owned(),
            partition: partition.into(),
        })
    }

    /// Commits a change and its messages: all or nothing. The messages are delivered in the background, by this process
    /// or, should it die, by any other that has a mailbox on the container.
    ///
    /// # Errors
    /// See [`OutboxError`]. A lost answer is cleared up by reading, if the draft has a message.
    pub async fn commit(&self, draft: Draft<C>) -> Result<(), OutboxError> {
        let inner = &self.inner;
        let reserved = inner.config.reserved;
        let sent = commit(&inner.container, &draft, reserved, inner.lifetimes()).await?;
        inner.hand_over(sent);
        Ok(())
    }

    /// What was given up.
    pub fn dead_letters(&self) -> DeadLetters<C> {
        DeadLetters::new(self.inner.container.clone(), self.inner.config)
    }

    /// Stops, and waits until what is at work has ended. What is not delivered or received by then is left to others.
    pub async fn stop(self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        drop(self.stop_on_drop);
    }
}
