//! Deletes ended instances in slices.
//!
//! One query finds a slice; it is deleted partition by partition, descendants before their
//! ancestors. A purge keeps only counts between slices, so another purge continues an interrupted
//! one.

use cdb_client::ContainerClient;
use cdb_model::{Filter, Query, Timestamp};
use duroxide::providers::{DeleteInstanceResult, ProviderError};
use futures::{StreamExt as _, stream};

use super::delete::add;
use super::instances;
use super::metrics::count;
use super::removal::Removal;
use crate::documents::{Durable, Instance, Status};
use crate::error::{InOperation, Result};

/// The operation's name in errors of a purge.
const PURGE: &str = "purge";
/// The number of instances per slice, without their descendants.
const SLICE: u32 = 100;
/// The number of partitions that are deleted concurrently.
const CONCURRENCY: usize = 8;

/// Deletes ended instances, one [`slice`](Self::next_slice) after the other.
///
/// ```
/// use std::time::Duration;
/// # use cdb_provider::documents::{Instance, Status};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let long_ago = store.container().now() - Duration::from_secs(40 * 24 * 3600);
/// # for id in ["order-1", "order-2"] {
/// #     let order = Instance {
/// #         orchestration_name: "Order".to_owned(), status: Status::Completed, completed_at: Some(long_ago),
/// #         ..Instance::pending(id, long_ago)
/// #     };
/// #     store.container().create(&order).await?;
/// # }
/// let mut purge = store.purge_ended(Duration::from_secs(30 * 24 * 3600));
/// let all = purge.remaining().await?;
/// while let Some(slice) = purge.next_slice().await? {
///     println!("{} of {all} gone, {} just now", purge.purged().instances_deleted, slice.instances_deleted);
/// }
/// assert_eq!(purge.purged().instances_deleted, 2);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Purge {
    container: ContainerClient<Durable>,
    ended_before: Timestamp,
    purged: DeleteInstanceResult,
}

impl Purge {
    pub(crate) fn new(container: ContainerClient<Durable>, ended_before: Timestamp) -> Self {
        Self {
            container,
            ended_before,
            purged: DeleteInstanceResult::default(),
        }
    }

    /// Returns the number of instances to delete, without their descendants. Runs one aggregate per
    /// physical partition.
    ///
    /// # Errors
    /// Fails when the service does not answer.
    pub async fn remaining(&self) -> Result<u64, ProviderError> {
        let remaining = count(&self.container, self.roots()).await;
        remaining.in_operation(PURGE)
    }

    /// Returns the counts of everything deleted so far.
    pub fn purged(&self) -> &DeleteInstanceResult {
        &self.purged
    }

    /// Deletes up to a hundred ended instances with their descendants. Returns `None` when none are
    /// left.
    ///
    /// # Errors
    /// Fails when the service does not answer, or an instance keeps changing. Deleted instances
    /// stay deleted, and the next call continues.
    pub async fn next_slice(&mut self) -> Result<Option<DeleteInstanceResult>, ProviderError> {
        self.delete_slice().await.in_operation(PURGE)
    }

    async fn delete_slice(&mut self) -> Result<Option<DeleteInstanceResult>> {
        let query = Query::<Instance>::across_partitions()
            .filter(self.roots())
            .top(SLICE)
            .values(Instance::INSTANCE_ID);
        let roots = instances::ids_of(&self.container, query).await?;
        if roots.is_empty() {
            return Ok(None);
        }
        let levels = instances::tree(&self.container, roots).await?;
        let mut slice = DeleteInstanceResult::default();
        let mut failure = None;
        // While an ancestor exists, an interrupted purge finds its descendants again.
        for level in levels.into_iter().rev() {
            failure = self.delete_all(level, &mut slice).await.err();
            if failure.is_some() {
                break;
            }
        }
        add(&mut self.purged, &slice);
        match failure {
            Some(error) => Err(error),
            None => Ok(Some(slice)),
        }
    }

    /// Deletes instances concurrently. Tries all of them, and returns the last failure.
    async fn delete_all(&self, ids: Vec<String>, deleted: &mut DeleteInstanceResult) -> Result<()> {
        let mut partitions = stream::iter(ids)
            .map(|id| {
                let container = self.container.clone();
                async move { Removal::of_instance(&container, &id).run().await }
            })
            .buffer_unordered(CONCURRENCY);
        let mut failure = Ok(());
        while let Some(removed) = partitions.next().await {
            match removed {
                Ok(counts) => add(deleted, &counts),
                Err(error) => failure = Err(error),
            }
        }
        failure
    }

    /// Matches instances that ended before the limit and have no parent.
    fn roots(&self) -> Filter<Instance> {
        Instance::STATUS.is_in([Status::Completed, Status::Failed])
            & instances::is_root()
            & Instance::COMPLETED_AT.lt(self.ended_before)
    }
}
