//! The effects that a body stages.

use std::marker::PhantomData;
use std::sync::Arc;

use cdb_client::ContainerClient;
use cdb_coordination::{Message, MessageDocument, OutboxBatch};
use cdb_model::container::MemberOf;
use cdb_model::operation::Operation;
use cdb_model::{Batch, Container, DocumentKey, PartitionKey, Stored};
use parking_lot::Mutex;

use super::error::EffectsError;
use super::limits::{MAX_BYTES, MAX_OPERATIONS};
use super::outbox::{Outgoing, WithMessages};

/// The effects of a transactional activity. All of them take place together with the end of the
/// activity, or none.
///
/// Documents belong to the partition of the activity's instance, and to the container `C`. Clones
/// stage into the same effects. Created for each run of a body, see
/// [`CosmosDBProvider::transactional`](crate::CosmosDBProvider::transactional).
///
/// Writes of the provider's own documents do not compile:
///
/// ```compile_fail,E0277
/// # use cdb_provider::documents::{Durable, WorkerItem};
/// # use cdb_provider::model::{Container, Document};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Document, Serialize, Deserialize)]
/// # #[document(type = "order", id = "{instance_id}:order")]
/// # struct Order { #[document(partition_key)] #[serde(rename = "instanceId")] instance_id: String }
/// #[derive(Container)]
/// enum Shop {
///     #[container(extends)]
///     Durable(Durable),
///     Order(Order),
/// }
///
/// fn stage(tx: &cdb_provider::Effects<Shop>) {
///     tx.add(WorkerItem::default().upsert()); // `WorkerItem` is not a document type that programs write to container `Shop`
/// }
/// ```
/// Messages need [`transactional_with`](crate::CosmosDBProvider::transactional_with):
///
/// ```compile_fail,E0599
/// # use cdb_provider::coordination::{Message, MessageDocument};
/// # use cdb_provider::documents::Durable;
/// # use cdb_provider::model::Container;
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Ping;
/// # impl Message for Ping { const TYPE: &'static str = "ping"; }
/// #[derive(Container)]
/// enum Shop {
///     #[container(extends)]
///     Durable(Durable),
///     Message(MessageDocument<Shop>),
/// }
///
/// fn stage(tx: &cdb_provider::Effects<Shop>) {
///     tx.send("stock", &Ping); // only `Effects<Shop, WithMessages>` can send
/// }
/// ```
pub struct Effects<C: Container, M = ()> {
    staged: Arc<Mutex<Option<Staged<C>>>>,
    container: ContainerClient<C>,
    partition: PartitionKey,
    marker: PhantomData<fn() -> M>,
}

/// Staged operations.
pub(super) enum Operations<C: Container> {
    Changes(Batch<C>),
    /// With the outbox that numbers the messages.
    WithMessages(OutboxBatch<C>, Arc<dyn Outgoing<C>>),
}

/// The effects of one run.
pub(super) struct Staged<C: Container> {
    pub(super) operations: Operations<C>,
    /// The first operation that was refused.
    refused: Option<String>,
}

impl<C: Container> Operations<C> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Changes(batch) => batch.len(),
            Self::WithMessages(batch, _) => batch.operations(),
        }
    }

    fn size_bytes(&self) -> usize {
        match self {
            Self::Changes(batch) => batch.size_bytes(),
            Self::WithMessages(batch, _) => batch.size_bytes(),
        }
    }

    fn changes(&mut self) -> &mut Batch<C> {
        match self {
            Self::Changes(batch) => batch,
            Self::WithMessages(batch, _) => batch.changes(),
        }
    }
}

impl<C: Container> Staged<C> {
    fn add(
        &mut self,
        add: impl FnOnce(&mut Operations<C>) -> Result<(), EffectsError>,
    ) -> Result<(), EffectsError> {
        add(&mut self.operations)?;
        let (operations, bytes) = (self.operations.len(), self.operations.size_bytes());
        if operations > MAX_OPERATIONS {
            return Err(EffectsError::TooMany { operations });
        }
        if bytes > MAX_BYTES {
            return Err(EffectsError::TooLarge { bytes });
        }
        Ok(())
    }
}

impl<C: Container, M> Clone for Effects<C, M> {
    fn clone(&self) -> Self {
        Self {
            staged: self.staged.clone(),
            container: self.container.clone(),
            partition: self.partition.clone(),
            marker: PhantomData,
        }
    }
}

impl<C: Container, M> std::fmt::Debug for Effects<C, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effects")
            .field("container", &self.container)
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}

impl<C: Container, M> Effects<C, M> {
    pub(super) fn new(
        operations: Operations<C>,
        container: ContainerClient<C>,
        instance_id: &str,
    ) -> Self {
        Self {
            staged: Arc::new(Mutex::new(Some(Staged {
                operations,
                refused: None,
            }))),
            container,
            partition: instance_id.into(),
            marker: PhantomData,
        }
    }

    /// Takes the effects of a body that has ended.
    ///
    /// # Errors
    /// When an operation was refused.
    pub(super) fn end(&self) -> Result<Operations<C>, String> {
        let staged = self.staged.lock().take();
        let staged = staged.ok_or_else(|| EffectsError::Ended.to_string())?;
        match staged.refused {
            Some(refused) => Err(refused),
            None => Ok(staged.operations),
        }
    }

    fn stage(
        &self,
        add: impl FnOnce(&mut Operations<C>) -> Result<(), EffectsError>,
    ) -> Result<(), EffectsError> {
        let mut staged = self.staged.lock();
        let staged = staged.as_mut().ok_or(EffectsError::Ended)?;
        let added = staged.add(add);
        if let Err(error) = &added {
            staged.refused.get_or_insert_with(|| error.to_string());
        }
        added
    }

    /// Returns the partition of the effects: the id of the instance.
    pub fn partition(&self) -> &PartitionKey {
        &self.partition
    }

    /// Returns the container, for reads and queries. Effects that are not committed are not
    /// visible. After refused effects the container reads the latest commit.
    pub fn container(&self) -> &ContainerClient<C> {
        &self.container
    }

    /// Reads a document of the partition. Returns `None` when it does not exist.
    ///
    /// # Errors
    /// When the service does not answer, or the document cannot be read.
    pub async fn read<K>(&self, key: &K) -> cdb_client::Result<Option<Stored<K::Document>>>
    where
        K: DocumentKey,
        K::Document: MemberOf<C>,
    {
        self.container.read(key.in_partition(&self.partition)).await
    }

    /// Adds an operation. If it is refused at the commit, the body runs again: the document to
    /// create exists, the document to replace, patch or delete does not exist or has another version
    /// than the one that was read, or a condition of the patch does not hold.
    ///
    /// # Errors
    /// See [`EffectsError`].
    pub fn add<O: Operation>(&self, operation: O) -> Result<(), EffectsError>
    where
        O::Document: MemberOf<C>,
    {
        self.stage(|operations| Ok(operations.changes().add(operation).map(drop)?))
    }
}

impl<C: Container> Effects<C, WithMessages>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Sends a message to a partition of the container. It takes effect once, after the activity
    /// has ended.
    ///
    /// # Errors
    /// See [`EffectsError`].
    pub fn send<T: Message>(
        &self,
        partition: impl Into<PartitionKey>,
        message: &T,
    ) -> Result<(), EffectsError> {
        self.stage(|operations| match operations {
            Operations::WithMessages(batch, _) => Ok(batch.send(partition, message)?),
            Operations::Changes(_) => Err(EffectsError::NoMessaging),
        })
    }
}
