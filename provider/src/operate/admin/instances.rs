//! Lists instances and their relations.

use std::collections::HashSet;

use cdb_client::ContainerClient;
use cdb_model::query::Filter;
use cdb_model::stored::Unreadable;
use cdb_model::{Query, Timestamp};
use duroxide::providers::{InstanceFilter, InstanceInfo};

use crate::error::{Error, Result};
use crate::stored::documents::{Durable, Incarnation, IncarnationFields, Instance, Status, Text};
use crate::stored::{history, spill};

/// The number of parents whose children one query finds, bounded by the practical length of a list
/// in the query language.
const PARENTS: usize = 100;

/// Matches the instances that callers may see: those whose first turn is committed.
pub(crate) fn visible() -> Filter<Instance> {
    Instance::STATUS.ne(Status::Pending)
}

/// Matches the instances without a parent.
pub(super) fn is_root() -> Filter<Instance> {
    Instance::PARENT_INSTANCE_ID.is_none()
}

/// Returns the ids of the instances that match a filter, newest first.
async fn ids(
    container: &ContainerClient<Durable>,
    filter: Filter<Instance>,
) -> Result<Vec<String>> {
    let query = newest_first(filter).values(Instance::INSTANCE_ID);
    let found = container.query(query).row_by_row().all().await?;
    // An id that is not a string does not belong to a document of this crate.
    Ok(found.into_iter().flatten().collect())
}

fn newest_first(filter: Filter<Instance>) -> Query<Instance> {
    Query::across_partitions()
        .filter(filter)
        .order_by(Instance::BY_CREATED.reversed())
}

/// Returns which instances a query finds.
pub(super) async fn found(
    container: &ContainerClient<Durable>,
    query: Query<Instance>,
) -> Result<Vec<Incarnation>> {
    let rows = container.query(query.select()).row_by_row().all().await?;
    Ok(rows.into_iter().filter_map(incarnation).collect())
}

/// Returns which instance a row shows. One without an id does not belong to this crate.
pub(super) fn incarnation(row: Result<IncarnationFields, Unreadable>) -> Option<Incarnation> {
    match row {
        Ok(fields) => Some(fields.into()),
        Err(found) => Incarnation::of_unreadable(&found),
    }
}

/// Implements `ProviderAdmin::list_instances`.
pub(crate) async fn list(container: &ContainerClient<Durable>) -> Result<Vec<String>> {
    ids(container, visible()).await
}

/// Implements `ProviderAdmin::list_instances_by_status`.
pub(crate) async fn list_by_status(
    container: &ContainerClient<Durable>,
    status: &str,
) -> Result<Vec<String>> {
    let filter = visible() & Instance::STATUS.eq(Status::from(status.to_owned()));
    ids(container, filter).await
}

/// Implements `ProviderAdmin::list_children`.
pub(crate) async fn children(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<Vec<String>> {
    let filter = visible() & Instance::PARENT_INSTANCE_ID.eq(instance_id);
    ids(container, filter).await
}

/// Returns the children, with those that were paused before they began.
pub(super) async fn all_children(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<Vec<Incarnation>> {
    let filter = Instance::PARENT_INSTANCE_ID.eq(instance_id);
    found(container, Query::across_partitions().filter(filter)).await
}

/// Implements `ProviderAdmin::get_instance_tree`: the root first.
pub(crate) async fn tree(container: &ContainerClient<Durable>, root: &str) -> Result<Vec<String>> {
    let below = descendants(container, vec![root.to_owned()]).await?;
    let below = below.into_iter().flatten().map(|found| found.instance_id);
    Ok(std::iter::once(root.to_owned()).chain(below).collect())
}

/// Returns the children of `parents`, then theirs, and so on, level by level. Contains no id twice:
/// damaged documents may name each other as parents.
pub(super) async fn descendants(
    container: &ContainerClient<Durable>,
    mut parents: Vec<String>,
) -> Result<Vec<Vec<Incarnation>>> {
    let mut seen: HashSet<String> = parents.iter().cloned().collect();
    let mut levels = Vec::new();
    while !parents.is_empty() {
        let mut children = Vec::new();
        for parents in parents.chunks(PARENTS) {
            let theirs = Instance::PARENT_INSTANCE_ID.is_in(parents.iter().cloned().map(Some));
            let query = Query::<Instance>::across_partitions().filter(theirs);
            let theirs = found(container, query).await?.into_iter();
            children.extend(theirs.filter(|child| seen.insert(child.instance_id.clone())));
        }
        let ids = children.iter().map(|child| child.instance_id.clone());
        parents = ids.collect();
        levels.push(children);
    }
    Ok(levels)
}

/// Returns the instances that match a duroxide filter and a condition.
pub(super) async fn filtered(
    container: &ContainerClient<Durable>,
    filter: &InstanceFilter,
    condition: Filter<Instance>,
    default_limit: u32,
) -> Result<Vec<Incarnation>> {
    let mut condition = visible() & condition;
    if let Some(before) = filter.completed_before {
        condition = condition & Instance::COMPLETED_AT.lt(Timestamp::from_millis(before));
    }
    let limit = filter.limit.unwrap_or(default_limit);
    let Some(wanted) = &filter.instance_ids else {
        return found(container, newest_first(condition).limit(limit)).await;
    };
    // One query per partition costs less than one query of all partitions.
    let mut all = Vec::new();
    for instance_id in wanted {
        if all.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            break;
        }
        let query = Query::<Instance>::in_partition(&**instance_id).filter(condition.clone());
        all.extend(found(container, query).await?);
    }
    Ok(all)
}

/// Returns an instance whose first turn is committed.
///
/// # Errors
/// Fails permanently, naming the instance, when it does not exist.
pub(crate) async fn existing(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<Instance> {
    history::read_instance(container, instance_id)
        .await?
        .map(|stored| stored.document)
        .filter(|instance| instance.status != Status::Pending)
        .ok_or_else(|| not_found(instance_id))
}

/// Says that an instance does not exist.
pub(crate) fn not_found(instance_id: &str) -> Error {
    Error::Refused(format!("instance {instance_id} not found"))
}

/// Reads the output of an execution, which may be stored in chunks.
pub(super) async fn output(
    container: &ContainerClient<Durable>,
    output: Option<Text>,
) -> Result<Option<String>> {
    match output {
        Some(text) => spill::read(container, text).await.map(Some),
        None => Ok(None),
    }
}

/// Implements `ProviderAdmin::get_instance_info`.
pub(crate) async fn info(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<InstanceInfo> {
    let instance = existing(container, instance_id).await?;
    Ok(InstanceInfo {
        instance_id: instance.instance_id,
        orchestration_name: instance.orchestration_name,
        orchestration_version: instance.orchestration_version.unwrap_or_default(),
        current_execution_id: instance.current_execution_id,
        status: instance.status.to_string(),
        output: output(container, instance.output).await?,
        created_at: instance.created_at.as_millis(),
        updated_at: instance.updated_at.as_millis(),
        parent_instance_id: instance.parent_instance_id,
    })
}
