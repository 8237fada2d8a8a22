//! The queries of the answers: the oldest items of the queues, and the instances that they are for.
//!
//! Work that waits is old, so the oldest items show it. Items due before [`FIRST_DUE`] are not work: they belong
//! to the schema gate for older runtimes.

use std::collections::{BTreeMap, BTreeSet};

use cdb_client::{ContainerClient, Result};
use cdb_coordination::lease::Lockable as _;
use cdb_model::query::Filter;
use cdb_model::{Query, Timestamp};

use crate::stored::documents::{
    Durable, FIRST_DUE, Instance, InstanceKey, OrchestratorItem, WorkerItem,
};

/// The container of the answers.
pub(super) type Container = ContainerClient<Durable>;

/// The instances of a sample by id. Those that do not exist are missing.
pub(super) type Instances = BTreeMap<String, Instance>;

/// The oldest items of a queue.
pub(super) struct Oldest<T> {
    pub(super) items: Vec<T>,
    /// Whether there are no others.
    pub(super) is_complete: bool,
}

/// Matches the messages that are due until a time.
pub(super) fn are_due(until: Timestamp) -> Filter<OrchestratorItem> {
    OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, until)
}

/// Queries the messages that are due until a time, oldest first.
pub(super) fn due_messages(until: Timestamp) -> Query<OrchestratorItem> {
    Query::<OrchestratorItem>::across_partitions()
        .filter(are_due(until))
        .order_by(OrchestratorItem::BY_DUE)
}

/// Matches the activities that are due and not locked.
pub(super) fn due_activities(now: Timestamp) -> Filter<WorkerItem> {
    WorkerItem::VISIBLE_AT.between(FIRST_DUE, now)
}

/// Matches all activities: due, locked, delayed and paused ones.
pub(super) fn all_activities() -> Filter<WorkerItem> {
    WorkerItem::VISIBLE_AT.ge(FIRST_DUE)
}

/// Reads the oldest messages that are due until a time.
pub(super) async fn messages(
    container: &Container,
    until: Timestamp,
    most: u32,
) -> Result<Oldest<OrchestratorItem>> {
    let found = container
        .query(due_messages(until).limit(most))
        .all()
        .await?;
    Ok(Oldest {
        is_complete: found.len() < most as usize,
        items: found.into_iter().map(|stored| stored.document).collect(),
    })
}

/// Reads the activities that match a filter and that are due first.
pub(super) async fn activities(
    container: &Container,
    filter: Filter<WorkerItem>,
    most: u32,
) -> Result<Oldest<WorkerItem>> {
    let query = Query::<WorkerItem>::across_partitions().filter(filter);
    let query = query.order_by(WorkerItem::BY_DUE).limit(most);
    let found = container.query(query).all().await?;
    Ok(Oldest {
        is_complete: found.len() < most as usize,
        items: found.into_iter().map(|stored| stored.document).collect(),
    })
}

/// Reads the activities that are due last.
pub(super) async fn latest_activities(container: &Container, most: u32) -> Result<Vec<WorkerItem>> {
    let query = Query::<WorkerItem>::across_partitions().filter(all_activities());
    let query = query.order_by(WorkerItem::BY_DUE.reversed()).limit(most);
    let found = container.query(query).all().await?;
    Ok(found.into_iter().map(|stored| stored.document).collect())
}

/// Reads instances, each once.
pub(super) async fn instances(container: &Container, ids: BTreeSet<String>) -> Result<Instances> {
    let keys: Vec<_> = ids.iter().map(|id| InstanceKey::new(&**id)).collect();
    let found = container.read_many(&keys).await?;
    let found = ids.into_iter().zip(found);
    Ok(found
        .filter_map(|(id, found)| Some((id, found?.document)))
        .collect())
}

/// Returns the end of the dispatcher's lock of an instance; `None` when it is not locked.
pub(super) fn lock_end(instance: &Instance, now: Timestamp) -> Option<Timestamp> {
    instance.locked_until().filter(|until| *until > now)
}
