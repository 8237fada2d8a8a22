//! Deletes instances with all their documents.
//!
//! An instance is a partition. One atomic batch deletes a partition of up to 100 documents. A
//! larger partition takes several: the first write of the instance prevents a running turn from
//! committing; then the queues are deleted, so that no other turn starts; the instance is deleted
//! last. If this is interrupted, the instance still exists and a repeated call finishes the work.

use std::collections::HashSet;

use cdb_client::ContainerClient;
use cdb_model::Timestamp;
use duroxide::providers::{DeleteInstanceResult, InstanceFilter};

use super::condition::State;
use super::purge::Purge;
use super::removal::{Removal, add};
use super::{forced, instances, withdraw};
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::admission;
use crate::stored::documents::{Durable, Incarnation, Status};
use crate::stored::found::{self, Found};

/// The number of instances that one bulk call deletes without a limit of its own.
const DEFAULT_LIMIT: u32 = 1000;

/// Implements `ProviderAdmin::delete_instances_atomic`.
pub(crate) async fn delete(
    services: &Services,
    ids: &[String],
    force: bool,
) -> Result<DeleteInstanceResult> {
    let container = services.container();
    let mut found = Vec::new();
    for id in ids {
        admission::check_not_reserved(id)?;
        let instance = found::find(container, id).await?;
        if !force {
            check_not_running(instance.as_ref())?;
        }
        check_complete(container, id, ids).await?;
        found.extend(instance.map(|instance| instance.incarnation));
    }
    if force {
        return forced::delete(services, ids, &found).await;
    }
    delete_ended(services, &found).await
}

/// Deletes instances that do not run, ancestors first in the list.
async fn delete_ended(
    services: &Services,
    instances: &[Incarnation],
) -> Result<DeleteInstanceResult> {
    if instances.len() > 1 {
        let ids = instances.iter().map(|found| found.instance_id.clone());
        let ids: Vec<String> = ids.collect();
        // A start delivered to a child after its deletion would recreate the child.
        for found in instances {
            withdraw::drop_intents(services.container(), found, &ids).await?;
        }
    }
    let mut result = DeleteInstanceResult::default();
    // Children first: while the parent exists, an interrupted deletion can be found and repeated.
    for found in instances.iter().rev() {
        let mut removal = Removal::of_instance(services, found, State::NotRunning);
        let removed = removal.run().await?;
        if removed.is_kept {
            // It was rewound since the check.
            return Err(still_running(&found.instance_id));
        }
        add(&mut result, &removed.counts);
    }
    Ok(result)
}

/// Implements `ProviderAdmin::delete_instance`: duroxide's default, but by force a tree may grow, and
/// an instance need not have begun.
pub(crate) async fn delete_tree(
    services: &Services,
    id: &str,
    force: bool,
) -> Result<DeleteInstanceResult> {
    admission::check_not_reserved(id)?;
    let container = services.container();
    let root = if force {
        let mut found = begun(container, id).await?;
        if found.is_none() {
            if let Some(deleted) = forced::delete_unbegun(services, id).await? {
                return Ok(deleted);
            }
            // It may have begun meanwhile.
            found = begun(container, id).await?;
        }
        found.ok_or_else(|| instances::not_found(id))?
    } else {
        Incarnation::of(&instances::existing(container, id).await?)
    };
    if root.parent.is_some() {
        return Err(Error::Refused(format!(
            "instance {id} is a sub-orchestration; delete its root instance instead"
        )));
    }
    if force {
        return forced::delete_trees(services, vec![root]).await;
    }
    let tree = ended_tree(container, root).await?;
    delete_ended(services, &tree).await
}

async fn begun(container: &ContainerClient<Durable>, id: &str) -> Result<Option<Incarnation>> {
    let found = found::find(container, id).await?;
    let found = found.filter(|found| found.stored.document.status != Status::Pending);
    Ok(found.map(|found| found.incarnation))
}

/// Returns an instance with its descendants, ancestors first.
///
/// # Errors
/// Fails when one of them runs, or has a child that was not found.
async fn ended_tree(
    container: &ContainerClient<Durable>,
    root: Incarnation,
) -> Result<Vec<Incarnation>> {
    let below = instances::descendants(container, vec![root.instance_id.clone()]).await?;
    let mut tree = vec![root];
    tree.extend(below.into_iter().flatten());
    let ids = tree.iter().map(|found| found.instance_id.clone());
    let ids: Vec<String> = ids.collect();
    let (mut ended, mut gone) = (Vec::new(), HashSet::new());
    for wanted in tree {
        let found = found::find(container, &wanted.instance_id).await?;
        let found = found.filter(|found| found.incarnation.is(&wanted));
        let is_orphan = wanted.parent.as_ref().is_some_and(|id| gone.contains(id));
        // Another process deletes the tree. The children of a later one have parents with the same ids.
        if found.is_none() || is_orphan {
            gone.insert(wanted.instance_id);
            continue;
        }
        check_not_running(found.as_ref())?;
        check_complete(container, &wanted.instance_id, &ids).await?;
        ended.push(wanted);
    }
    Ok(ended)
}

fn check_not_running(found: Option<&Found>) -> Result<()> {
    match found.map(|found| &found.stored.document) {
        Some(instance) if instance.is_running() => Err(still_running(&instance.instance_id)),
        _ => Ok(()),
    }
}

fn still_running(id: &str) -> Error {
    Error::Refused(format!(
        "instance {id} is still running; cancel it first, or delete it with force"
    ))
}

/// Checks that the children of an instance are to be deleted too.
async fn check_complete(
    container: &ContainerClient<Durable>,
    id: &str,
    ids: &[String],
) -> Result<()> {
    let children = instances::all_children(container, id).await?;
    let mut children = children.into_iter().map(|child| child.instance_id);
    if let Some(child) = children.find(|child| !ids.contains(child)) {
        return Err(Error::Refused(format!(
            "instance {id} has a child {child} that is not among the instances to delete; \
             read the tree again"
        )));
    }
    Ok(())
}

/// Implements `ProviderAdmin::delete_instance_bulk` for ended root instances, each with its
/// descendants.
pub(crate) async fn delete_bulk(
    services: &Services,
    filter: &InstanceFilter,
) -> Result<DeleteInstanceResult> {
    let before = filter.completed_before.map(Timestamp::from_millis);
    let mut purge = Purge::new(services.clone(), before);
    let container = purge.container();
    let roots = instances::filtered(container, filter, purge.roots(), DEFAULT_LIMIT).await?;
    purge.delete_trees(roots, Vec::new()).await
}
