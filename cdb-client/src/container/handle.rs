//! The typed handle to a container.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cdb_model::{Container, Extends, Timestamp};

use crate::container::context::ContainerContext;
use crate::error::Result;
use crate::ranges::RangeId;
use crate::usage::Usage;

/// A container whose documents are those of `C`. Cheap to clone; clones share session tokens, so whoever uses this
/// process's handles reads what this process wrote.
///
/// ```
/// use cdb_model::{Patch, Query};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// shop.create(&order(1)).await?;
/// let key = OrderKey::new("ann", 1_u64);
/// let read = shop.read(&key).await?.expect("it was created");
///
/// // Only if nobody has changed it since it was read.
/// let paid = Patch::new().set(Order::STATUS, "paid".to_owned());
/// shop.patch_stored(&read, &paid).await?;
/// assert!(shop.patch_stored(&read, &paid).await.unwrap_err().is_precondition_failed());
///
/// let open = Query::<Order>::across_partitions().filter(Order::STATUS.eq("open"));
/// assert!(shop.query(open).first().await?.is_none());
/// shop.delete(&key).await?;
/// # Ok(()) }).unwrap();
/// ```
pub struct ContainerClient<C> {
    pub(super) context: Arc<ContainerContext>,
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

    /// The same container seen as the one that `C` extends.
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

    /// The same container with reads and queries that see the latest committed state, whoever wrote it, on accounts
    /// of any consistency. They cost about twice the request units.
    ///
    /// Without it, and on an account of session consistency, a read sees what this process wrote, and of what others
    /// wrote possibly not the last milliseconds.
    pub fn latest_committed(&self) -> Self {
        Self {
            latest_committed: true,
            ..self.clone()
        }
    }

    /// Name of the database.
    pub fn database(&self) -> &str {
        &self.context.database
    }

    /// Name of the container.
    pub fn name(&self) -> &str {
        &self.context.container
    }

    /// The service's time, as its answers show it.
    pub fn now(&self) -> Timestamp {
        self.context.pipeline.clock.now()
    }

    /// What the whole client has used so far.
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

    /// The physical partitions as they are known; lists them the first time.
    ///
    /// # Errors
    /// When they have to be listed and cannot be.
    pub async fn ranges(&self) -> Result<Vec<RangeId>> {
        let map = self.context.ranges().await?;
        Ok(map.iter().map(|range| range.id.clone()).collect())
    }
}

impl<C> Clone for ContainerClient<C> {
    fn clone(&self) -> Self {
        Self {
            context: self.context.clone(),
            latest_committed: self.latest_committed,
            marker: PhantomData,
        }
    }
}

impl<C> fmt::Debug for ContainerClient<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContainerClient")
            .field("resource", &self.context.resource.link)
            .finish_non_exhaustive()
    }
}
