//! The typed handle to a container.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use cdb_model::container::Extends;
use cdb_model::{Container, PartitionKey, Timestamp};
use derive_where::derive_where;

use crate::container::answering::REFUSED;
use crate::container::context::ContainerContext;
use crate::error::{Error, Result};
use crate::partitions::{Behind, PartitionHealth, PhysicalPartitionId};
use crate::throughput::Usage;

/// A container whose documents are those of `C`. Cheap to clone; all handles of a client share the
/// session tokens, so a process reads its own writes.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_client::ContainerClient;
/// use cdb_model::{Document as _, Query};
/// use shop::{Order, OrderKey, Shop};
///
/// async fn pay(shop: &ContainerClient<Shop>, order: &Order) -> cdb_client::Result<()> {
///     shop.run(order.create()).await?;
///     let key = OrderKey::new("ann", 1);
///     if let Some(stored) = shop.read(&key).await? {
///         let paid = stored.patch().set(Order::STATUS, "paid");
///         shop.run(paid).await?; // fails if the document has changed since
///     }
///     let open = Query::<Order>::across_partitions().filter(Order::STATUS.eq("open"));
///     println!("{:?} open orders", shop.query(open.count()).first().await?);
///     shop.run(key.delete()).await
/// }
/// ```
#[derive_where(Clone)]
pub struct ContainerClient<C> {
    pub(crate) context: Arc<ContainerContext>,
    pub(super) latest_committed: bool,
    marker: PhantomData<fn() -> C>,
}

impl<C: Container> ContainerClient<C> {
    pub(crate) fn new(context: Arc<ContainerContext>) -> Self {
        Self {
            context,
            latest_committed: false,
            marker: PhantomData,
        }
    }

    /// Returns a handle to the same container with the documents of `B`, which `C` extends.
    pub fn view<B: Container>(&self) -> ContainerClient<B>
    where
        C: Extends<B>,
    {
        ContainerClient {
            context: self.context.clone(),
            latest_committed: self.latest_committed,
            marker: PhantomData,
        }
    }

    /// Returns a handle whose reads and queries see the latest committed state, on accounts of any
    /// consistency level. They cost about twice the request units.
    ///
    /// Other handles read with the account's consistency. With session consistency, a read sees all
    /// writes of this process, and may miss the last milliseconds of writes of other processes.
    pub fn latest_committed(&self) -> Self {
        Self {
            latest_committed: true,
            ..self.clone()
        }
    }

    /// Returns a handle for work that can wait, such as deletions of old documents, copies and
    /// exports. Once a request of any kind was throttled, its requests wait while this process
    /// spends more than its [share](crate::throughput::BackgroundConfig::share) of what it spent then, and 0.1
    /// to 5 s after each throttled request. At least one is sent every 5 s. The service may
    /// throttle them before others. Requests of other handles never wait for them.
    pub fn in_background(&self) -> Self {
        Self {
            context: Arc::new(self.context.in_background()),
            ..self.clone()
        }
    }

    /// Returns the name of the database.
    pub fn database(&self) -> &str {
        &self.context.database
    }

    /// Returns the name of the container.
    pub fn name(&self) -> &str {
        &self.context.container
    }

    /// Returns the service's time, estimated from its answers.
    pub fn now(&self) -> Timestamp {
        self.context.pipeline.clock.now()
    }

    /// Returns the usage of the whole client so far.
    pub fn usage(&self) -> Usage {
        self.context.pipeline.meter.snapshot()
    }

    /// Deletes the container and everything in it.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) when there is none.
    pub async fn delete_container(&self) -> Result<()> {
        self.context.delete().await
    }

    /// Returns the known physical partitions; lists them the first time.
    ///
    /// # Errors
    /// When the listing fails.
    pub async fn physical_partitions(&self) -> Result<Vec<PhysicalPartitionId>> {
        let map = self.context.physical_partitions().await?;
        Ok(map.iter().map(|range| range.id.clone()).collect())
    }

    /// Returns the physical partition of a logical one; `None` when this client cannot hash the
    /// key, such as a number above 2^53. Lists the physical partitions the first time.
    ///
    /// # Errors
    /// When the listing fails, or the key has not all levels or is too long.
    pub async fn physical_partition_of(
        &self,
        key: &PartitionKey,
    ) -> Result<Option<PhysicalPartitionId>> {
        Self::check_key(key)?;
        let map = self.context.physical_partitions().await?;
        Ok(map.locate(key).map(|range| range.id.clone()))
    }

    /// Refuses a partition key without all levels of the container, or with a value that is too long.
    pub(super) fn check_key(key: &PartitionKey) -> Result<()> {
        let (found, paths) = (key.values().len(), C::PARTITION_KEY);
        if found == paths.len() {
            return key.check_length().map_err(Error::key_too_long);
        }
        Err(Error::configuration(format!(
            "partition key {key} has {found} of {} levels of `{}` ({}); name a value for each, or query all partitions \
             of a prefix with `Query::in_partition_prefix`",
            paths.len(),
            C::NAME,
            paths.join(", ")
        )))
    }

    /// Returns the deadline of a request: [`RetryConfig::deadline`](crate::retry::RetryConfig::deadline).
    pub fn deadline(&self) -> Duration {
        self.context.pipeline.retry_config().deadline
    }

    /// Returns which physical partitions answer, as all requests to this container have found.
    pub fn health(&self) -> &PartitionHealth {
        &self.context.health
    }

    /// Returns the rest of the backoff of a logical partition, whose physical partition does not
    /// answer or throttles requests, while others answer. Sends nothing. The caller sends a request
    /// if there is none.
    pub fn backoff_of(&self, key: &PartitionKey) -> Option<Duration> {
        if self.health().all_work() {
            return None;
        }
        self.health()
            .backoff_of_work(&self.context.known_partition_of(key)?)
    }

    /// Returns `true` if the physical partition of a logical one has not answered since a failure or
    /// throttles requests, while others answer. Sends nothing, and lets no caller try the partition.
    pub fn is_silent(&self, key: &PartitionKey) -> bool {
        !self.health().all_work()
            && self
                .context
                .known_partition_of(key)
                .is_some_and(|range| self.health().is_silent(&range))
    }

    /// Awaits work in a logical partition while its physical partition answers. Slow work goes on as
    /// long as the partition answers point reads, which cost 1 RU every half second, and does not
    /// answer the requests of the work by 429 for more than a second.
    ///
    /// # Errors
    /// Returns the rest of the partition's backoff, and drops the work, when the partition does not
    /// answer or throttles the work, while others answer.
    pub async fn while_answering<T>(
        &self,
        key: &PartitionKey,
        work: impl Future<Output = T>,
    ) -> Result<T, Duration> {
        match self.backoff_of(key) {
            Some(backoff) => Err(backoff),
            None => self.context.while_answering(key, REFUSED, work).await,
        }
    }

    /// As [`while_answering`](Self::while_answering), without a look at the backoff, and until the work
    /// was throttled for as long as `refused`. Borrowed work can go on afterwards.
    ///
    /// # Errors
    /// Returns the rest of the partition's backoff as soon as the partition does not answer or throttles
    /// the work, while others answer.
    pub async fn until_stalled<T>(
        &self,
        key: &PartitionKey,
        refused: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Duration> {
        self.context.while_answering(key, refused, work).await
    }

    /// Returns why work in a logical partition should go behind that in others: its physical partition
    /// has refused requests for a tenth of a second or longer, takes a quarter of a second or longer for
    /// writes and four times as long as another one, or has left a write without an answer for a second;
    /// and another partition has not. Sends nothing.
    pub fn behind(&self, key: &PartitionKey) -> Option<Behind> {
        self.health().behind(&self.context.known_partition_of(key)?)
    }

    /// Awaits a request to a logical partition, as [`while_answering`](Self::while_answering) but
    /// without a look at its backoff.
    ///
    /// # Errors
    /// When the request fails, or its partition does not answer.
    pub async fn in_time<T, E: From<Error>>(
        &self,
        key: &PartitionKey,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.context.in_time(key, request).await
    }
}

impl<C> fmt::Debug for ContainerClient<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContainerClient")
            .field("resource", &self.context.resource.link)
            .finish_non_exhaustive()
    }
}
