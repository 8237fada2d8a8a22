//! The entrance: one call per answer.

use std::collections::BTreeMap;
use std::fmt;

use cdb_client::query::Continuation;

use super::ObserveError;
use super::health::{self, Health};
use super::instances::{
    self, Awaited, InstanceDetail, InstancePage, InstanceQuery, ObservedHistory, ObservedInstance,
    ObservedTree, Overview, PastCounts, Presence, Window,
};
use super::limits::{self, LimitsInUse};
use super::members::{self, Group};
use super::queues::{self, Queues};
use super::unstarted::{self, Unstarted};
use crate::stored::Store;

/// The result of an answer.
type Result<T> = std::result::Result<T, ObserveError>;

/// Answers what waits in a container, since when and for what. From
/// [`CosmosDBProvider::observe`](crate::CosmosDBProvider::observe).
///
/// Each answer costs a few queries across all partitions; call it every few seconds or minutes, not per request of a
/// user. It needs no runtime in this process.
///
/// ```no_run
/// # use cdb_provider::CosmosDBProvider;
/// # async fn health(provider: &CosmosDBProvider) -> Result<(), Box<dyn std::error::Error>> {
/// let observe = provider.observe();
///
/// // A metric for an autoscaler: for how long activities have waited for a free worker.
/// let queues = observe.queues().await?;
/// let lag = queues.unlimited().unwrap_or_default();
/// println!("{} activities are due, the oldest for {lag:?}", queues.activities.count);
///
/// // A health check.
/// let health = observe.health().await?;
/// for stuck in &health.stuck_instances {
///     println!("{} does not go on: {:?}", stuck.id, stuck.obstacle);
/// }
/// let silent = health.members.members.iter().filter(|member| member.is_silent);
/// let is_healthy = silent.count() == 0 && health.stuck_instances.is_empty()
///     && queues.messages.overdue().is_none();
/// println!("healthy: {is_healthy}");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct Observe<'a> {
    store: &'a Store,
}

impl<'a> Observe<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        Self { store }
    }

    /// Reads the length and age of each queue, the slots with due messages, what limits hold back, and which runtimes
    /// are busy.
    ///
    /// # Errors
    /// Fails when the service refuses a query, or a document cannot be decoded.
    pub async fn queues(self) -> Result<Queues> {
        Ok(Box::pin(queues::read(&self.store.container)).await?)
    }

    /// Reads all that waits and what keeps it from going on, for a health check: the queues, the runtimes, and the
    /// instances and activities that do not go on.
    ///
    /// # Errors
    /// As [`queues`](Self::queues).
    pub async fn health(self) -> Result<Health> {
        Ok(Box::pin(health::read(self.store)).await?)
    }

    /// Reads the runtimes of a membership group, by default of the default group. Also works outside of the group,
    /// unlike [`members`](crate::CosmosDBProvider::members).
    ///
    /// # Errors
    /// As [`queues`](Self::queues).
    pub async fn members(self, group: Option<&str>) -> Result<Group> {
        Ok(members::read(&self.store.container, group).await?)
    }

    /// Reads the limits, the keys that they limit at present, and the limits that select nothing.
    ///
    /// # Errors
    /// As [`queues`](Self::queues).
    pub async fn limits(self) -> Result<LimitsInUse> {
        Ok(limits::read(&self.store.container).await?)
    }

    /// Reads the instances whose start is queued, among those of the 200 oldest messages, in the order of the queue.
    ///
    /// # Errors
    /// As [`queues`](Self::queues).
    pub async fn unstarted(self) -> Result<Vec<Unstarted>> {
        Ok(unstarted::read(&self.store.container).await?)
    }

    /// Reads an instance, by a point read. `None` if it does not exist or has not begun; [`presence`](Self::presence)
    /// tells which.
    ///
    /// # Errors
    /// As [`queues`](Self::queues).
    pub async fn instance(self, id: &str) -> Result<Option<ObservedInstance>> {
        Ok(instances::instance(self.store, id).await?)
    }

    /// Reads whether an instance has begun, and if not, what its queued start waits for.
    ///
    /// # Errors
    /// As [`queues`](Self::queues).
    pub async fn presence(self, id: &str) -> Result<Presence> {
        Ok(Box::pin(instances::read_presence(self.store, id)).await?)
    }

    /// Reads a page of instances, at most `rows` of them.
    ///
    /// # Errors
    /// As [`queues`](Self::queues); also when a condition or the sort names no indexed field, or `from` belongs to
    /// another query.
    ///
    /// ```no_run
    /// # use cdb_provider::CosmosDBProvider;
    /// use cdb_provider::documents::Status;
    /// use cdb_provider::observe::InstanceQuery;
    ///
    /// # async fn list(provider: &CosmosDBProvider) -> Result<(), Box<dyn std::error::Error>> {
    /// let failed = InstanceQuery {
    ///     statuses: vec![Status::Failed],
    ///     orchestration: Some("Order".to_owned()),
    ///     ..InstanceQuery::default()
    /// };
    /// let mut from = None;
    /// loop {
    ///     let page = provider.observe().instances(&failed, 100, from).await?;
    ///     for instance in page.instances {
    ///         println!("{}: {}", instance.id, instance.error.unwrap_or_default());
    ///     }
    ///     from = page.next;
    ///     if from.is_none() {
    ///         break Ok(());
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn instances(
        self,
        query: &InstanceQuery,
        rows: usize,
        from: Option<Continuation>,
    ) -> Result<InstancePage> {
        instances::page(self.store, query, rows, from).await
    }

    /// Reads a page of instances with what the first 50 running ones wait for, as far as their histories are short.
    ///
    /// # Errors
    /// As [`instances`](Self::instances).
    pub async fn instances_with_waits(
        self,
        query: &InstanceQuery,
        rows: usize,
        from: Option<Continuation>,
    ) -> Result<InstancePage> {
        Box::pin(instances::page_with_waits(self.store, query, rows, from)).await
    }

    /// Reads all about an instance: what it waits for, its messages, activities, values and earlier executions. `None`
    /// if it does not exist or has not begun.
    ///
    /// # Errors
    /// As [`queues`](Self::queues); also when its history is damaged, or the key of its payloads is unavailable.
    pub async fn detail(self, id: &str) -> Result<Option<InstanceDetail>> {
        Ok(Box::pin(instances::read_detail(self.store, id)).await?)
    }

    /// Reads what an instance waits for, from the history of its newest execution.
    ///
    /// # Errors
    /// As [`detail`](Self::detail).
    pub async fn waits(self, instance: &ObservedInstance) -> Result<Awaited> {
        Ok(instances::awaited(self.store, instance).await?)
    }

    /// Reads the events of an execution of an instance. An execution that does not exist has none.
    ///
    /// # Errors
    /// As [`detail`](Self::detail).
    pub async fn history(self, id: &str, execution: u64) -> Result<ObservedHistory> {
        Ok(instances::history(self.store, id, execution).await?)
    }

    /// Reads an instance and its sub-orchestrations, level by level, about 1,000 at most. `None` if it does not exist or
    /// has not begun.
    ///
    /// # Errors
    /// As [`queues`](Self::queues).
    pub async fn tree(self, id: &str) -> Result<Option<ObservedTree>> {
        Ok(instances::read_tree(self.store, id).await?)
    }

    /// Counts the children of instances, by the id of the parent. Returns `None` when they have more than 1,000 together.
    ///
    /// # Errors
    /// As [`queues`](Self::queues).
    pub async fn child_counts(
        self,
        parents: impl IntoIterator<Item = String>,
    ) -> Result<Option<BTreeMap<String, usize>>> {
        let parents = parents.into_iter();
        Ok(instances::child_counts(&self.store.container, parents).await?)
    }

    /// Counts the instances by state, and those that ended over time. Counts only what is new since the last overview
    /// with the same `past`.
    ///
    /// # Errors
    /// As [`queues`](Self::queues).
    pub async fn overview(self, window: Window, past: &PastCounts) -> Result<Overview> {
        Ok(instances::read_overview(&self.store.container, window, past).await?)
    }
}

impl fmt::Debug for Observe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observe")
            .field("container", &self.store.container)
            .finish()
    }
}
