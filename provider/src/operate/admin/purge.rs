//! Deletes ended instances in slices.
//!
//! Queries find a slice; it is deleted partition by partition, descendants before their ancestors.
//! Another purge continues an interrupted one.
//!
//! A root is deleted with its descendants, once all of them have ended: a rewind continues children
//! before their parents. The batch that deletes an instance checks it again. The ended child of a
//! running parent is deleted by its own age, see [`super::ended_children`].

use std::collections::HashSet;

use cdb_client::ContainerClient;
use cdb_client::query::Continuation;
use cdb_coordination::membership::SlotSet;
use cdb_model::query::Filter;
use cdb_model::{Query, Timestamp};
use duroxide::providers::{DeleteInstanceResult, ProviderError};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::condition::State;
use super::removal::{Removal, add};
use super::{ended_children, instances};
use crate::error::{Error, InOperation, Result};
use crate::operate::metrics::count;
use crate::queue::Services;
use crate::stored::documents::{Durable, Incarnation, Instance, Status, dispatch_slot};

/// The operation's name in errors of a purge.
const PURGE: &str = "purge";
/// The most roots of a slice, and the most children of running parents.
pub(super) const SLICE: usize = 100;
/// The number of partitions that are deleted concurrently.
const CONCURRENCY: usize = 8;

/// Deletes ended instances, one [`slice`](Self::next_slice) after the other.
///
/// ```
/// use std::time::Duration;
/// # use cdb_provider::documents::{Instance, Status};
/// # use cdb_provider::model::Document as _;
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
/// #     store.container().run(order.create()).await?;
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
    services: Services,
    /// The container, for requests that can wait.
    container: ContainerClient<Durable>,
    /// The time before which the instances have ended; `None` for all ended ones.
    ended_before: Option<Timestamp>,
    /// The dispatch slots whose instances are deleted.
    slots: SlotSet,
    /// Instances that a query has found, and that have not ended before the limit any more, whose
    /// descendants have not, or whose messages cannot be delivered.
    kept: HashSet<String>,
    /// The position in the search for children; `None` before the first slice and after the last.
    next_children: Option<Continuation>,
    children_searched: bool,
    purged: DeleteInstanceResult,
}

impl Purge {
    pub(crate) fn new(services: Services, ended_before: Option<Timestamp>) -> Self {
        Self {
            container: services.container().in_background(),
            services,
            ended_before,
            slots: SlotSet::ALL,
            kept: HashSet::new(),
            next_children: None,
            children_searched: false,
            purged: DeleteInstanceResult::default(),
        }
    }

    /// Deletes only instances of these slots from now on.
    pub(crate) fn set_slots(&mut self, slots: SlotSet) {
        self.slots = slots;
    }

    /// Returns the number of instances to delete, without those that have a parent. Runs one
    /// aggregate per physical partition.
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

    /// Deletes up to a hundred ended roots, and up to a hundred ended children of running parents,
    /// with their descendants. Returns `None` when none are left.
    ///
    /// A tree is kept while one of its instances runs or has ended later than the limit. A child is kept
    /// while its parent has ended and is kept, while a message that it has sent is undelivered, and
    /// while its parent may still start it.
    ///
    /// # Errors
    /// Fails when the service does not answer, or an instance keeps changing. Deleted instances
    /// stay deleted, and the next call continues.
    pub async fn next_slice(&mut self) -> Result<Option<DeleteInstanceResult>, ProviderError> {
        self.delete_slice().await.in_operation(PURGE)
    }

    async fn delete_slice(&mut self) -> Result<Option<DeleteInstanceResult>> {
        loop {
            let roots = self.ended_roots().await?;
            // Roots first: most ended children are deleted with them.
            let searches_children = roots.len() < SLICE && !self.children_searched;
            if roots.is_empty() && !searches_children {
                return Ok(None);
            }
            let mut found = (Vec::new(), None);
            if searches_children {
                found = self.ended_children().await?;
            }
            let (children, next) = found;
            let slice = self.delete_trees(roots, children).await?;
            if searches_children {
                self.children_searched = next.is_none();
                self.next_children = next;
            }
            if slice.instances_deleted > 0 {
                return Ok(Some(slice));
            }
        }
    }

    async fn ended_roots(&self) -> Result<Vec<Incarnation>> {
        let query = Query::<Instance>::across_partitions().filter(self.roots());
        let rows = u32::try_from(SLICE).unwrap_or(u32::MAX);
        let query = self.container.query(query.select());
        let query = query.page_size(rows).row_by_row();
        let mut pages = query.pages();
        let mut found = Vec::new();
        while found.len() < SLICE
            && let Some(page) = pages.next_page().await?
        {
            let roots = page.into_iter().filter_map(instances::incarnation);
            found.extend(roots.filter(|root| self.is_mine(&root.instance_id)));
        }
        found.truncate(SLICE);
        Ok(found)
    }

    /// Returns ended children that may be deleted before their parents, and the position of the
    /// next ones.
    async fn ended_children(&self) -> Result<(Vec<Incarnation>, Option<Continuation>)> {
        let ended_children = self.ended() & !instances::is_root();
        let query = Query::<Instance>::across_partitions().filter(ended_children);
        let query = self.container.query(query).row_by_row();
        let page = query.page(SLICE, self.next_children.as_ref()).await?;
        let children = page.rows.into_iter().flatten().map(|row| row.document);
        let children = children.filter(|child| self.is_mine(&child.instance_id));
        let deletable = ended_children::deletable(&self.container, children.collect()).await?;
        Ok((deletable, page.next))
    }

    /// Returns whether an instance belongs to the slots, and is not known to be kept.
    fn is_mine(&self, id: &str) -> bool {
        self.slots.contains(dispatch_slot(id)) && !self.kept.contains(id)
    }

    /// Deletes instances with their descendants. Returns the counts of what it deleted.
    pub(super) async fn delete_trees(
        &mut self,
        roots: Vec<Incarnation>,
        children: Vec<Incarnation>,
    ) -> Result<DeleteInstanceResult> {
        let mut slice = DeleteInstanceResult::default();
        let mut failure = Ok(());
        for (top, is_delivered) in [(roots, false), (children, true)] {
            let deleted = self.delete_levels(top, is_delivered, &mut slice).await;
            failure = deleted.and(failure);
        }
        add(&mut self.purged, &slice);
        failure.map(|()| slice)
    }

    /// Deletes ended instances, after their descendants. Keeps the ancestors of those that have not
    /// ended.
    async fn delete_levels(
        &mut self,
        top: Vec<Incarnation>,
        is_delivered: bool,
        slice: &mut DeleteInstanceResult,
    ) -> Result<()> {
        let before = self.ended_before;
        let of_top = State::Ended {
            before,
            is_delivered,
        };
        let levels = self.ended_trees(top).await?;
        let mut needed = HashSet::new();
        // While an ancestor exists, an interrupted purge finds its descendants again.
        for (depth, level) in levels.into_iter().enumerate().rev() {
            let state = match depth {
                0 => of_top,
                _ => State::Settled { before },
            };
            let (kept, ended) = level
                .into_iter()
                .partition(|found| needed.contains(&found.instance_id));
            let mut kept: Vec<Incarnation> = kept;
            kept.extend(self.delete_all(ended, state, slice).await?);
            self.kept
                .extend(kept.iter().map(|found| found.instance_id.clone()));
            needed.extend(kept.into_iter().filter_map(|found| found.parent));
        }
        Ok(())
    }

    /// Returns the trees of `top`, level by level. Leaves out the trees whose top was rewound, or
    /// deleted and started again, after a query found it: its descendants are deleted before it.
    async fn ended_trees(&mut self, mut top: Vec<Incarnation>) -> Result<Vec<Vec<Incarnation>>> {
        loop {
            let ids = top.iter().map(|found| found.instance_id.clone()).collect();
            let below = instances::descendants(&self.container, ids).await?;
            let mut continued = Vec::new();
            if !below.iter().all(Vec::is_empty) {
                continued = self.not_ended(&top).await?;
            }
            if continued.is_empty() {
                return Ok(std::iter::once(top).chain(below).collect());
            }
            top.retain(|found| !continued.contains(&found.instance_id));
            self.kept.extend(continued);
        }
    }

    /// Returns the instances that have not ended before the limit, by their latest commits.
    async fn not_ended(&self, instances: &[Incarnation]) -> Result<Vec<String>> {
        let container = self.container.latest_committed();
        let read = |wanted: &Incarnation| {
            let query = Query::<Instance>::in_partition(&*wanted.instance_id).filter(self.ended());
            let (container, wanted) = (container.clone(), wanted.clone());
            async move {
                let ended = instances::found(&container, query).await?;
                let has_ended = ended.iter().any(|found| found.is(&wanted));
                Ok((!has_ended).then_some(wanted.instance_id))
            }
        };
        let reads = stream::iter(instances).map(read);
        let reads = reads.buffer_unordered(CONCURRENCY);
        reads.try_filter_map(async |id| Ok(id)).try_collect().await
    }

    /// Deletes instances in this state concurrently. Tries all of them, and returns the last failure.
    /// Returns those that are in another state.
    async fn delete_all(
        &mut self,
        instances: Vec<Incarnation>,
        state: State,
        deleted: &mut DeleteInstanceResult,
    ) -> Result<Vec<Incarnation>> {
        let mut partitions = stream::iter(instances)
            .map(|found| {
                let (services, container) = (self.services.clone(), self.container.clone());
                async move {
                    let removal = Removal::of_instance(&services, &found, state);
                    let removed = removal.through(&container).run().await;
                    (found, removed)
                }
            })
            .buffer_unordered(CONCURRENCY);
        let (mut kept, mut failure) = (Vec::new(), Ok(()));
        while let Some((found, removed)) = partitions.next().await {
            match removed {
                Ok(removed) if removed.is_kept => kept.push(found),
                // Another process has deleted it. A stale query may find it again.
                Ok(removed) if removed.counts.instances_deleted == 0 => {
                    self.kept.insert(found.instance_id);
                }
                Ok(removed) => add(deleted, &removed.counts),
                // The reconciler goes on. The instance must not keep others from being deleted.
                Err(Error::Undelivered(reason)) => {
                    tracing::warn!(%reason, "an ended instance is not deleted yet");
                    self.kept.insert(found.instance_id);
                }
                Err(error) => failure = Err(error),
            }
        }
        failure.map(|()| kept)
    }

    /// Returns the container, for requests that can wait.
    pub(super) fn container(&self) -> &ContainerClient<Durable> {
        &self.container
    }

    /// Matches instances that ended before the limit and have no parent.
    pub(super) fn roots(&self) -> Filter<Instance> {
        self.ended() & instances::is_root()
    }

    /// Matches instances that ended before the limit.
    fn ended(&self) -> Filter<Instance> {
        let ended = Instance::STATUS.is_in([Status::Completed, Status::Failed]);
        match self.ended_before {
            Some(before) => ended & Instance::COMPLETED_AT.lt(before),
            None => ended,
        }
    }
}
