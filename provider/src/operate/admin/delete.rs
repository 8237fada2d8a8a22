//! Deletes instances with all their documents.
//!
//! An instance is a partition. One atomic batch deletes a partition of up to 100 documents. A
//! larger partition takes several: the first write of the instance prevents a running turn from
//! committing; then the queues are deleted, so that no other turn starts; the instance is deleted
//! last. If this is interrupted, the instance still exists and a repeated call finishes the work.

use cdb_client::ContainerClient;
use cdb_model::Timestamp;
use duroxide::providers::{DeleteInstanceResult, InstanceFilter};

use super::purge::Purge;
use super::removal::{Condition, Removal, add};
use super::{fence, forced, instances, withdraw};
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::Durable;
use crate::stored::{admission, history};

/// The number of instances that one bulk call deletes without a limit of its own.
const DEFAULT_LIMIT: u32 = 1000;

/// Implements `ProviderAdmin::delete_instances_atomic`.
pub(crate) async fn delete(
    services: &Services,
    ids: &[String],
    force: bool,
) -> Result<DeleteInstanceResult> {
    let container = services.container();
    for id in ids {
        admission::check_not_reserved(id)?;
        if !force {
            check_not_running(container, id).await?;
        }
        check_complete(container, id, ids).await?;
    }
    if force {
        return forced::delete_trees(services, ids).await;
    }
    if ids.len() > 1 {
        // A start delivered to a child after its deletion would recreate the child.
        for id in ids {
            withdraw::drop_intents(container, id, ids).await?;
        }
    }
    let mut result = DeleteInstanceResult::default();
    // Children first: while the parent exists, an interrupted deletion can be found and repeated.
    for id in ids.iter().rev() {
        // It may have been rewound or started again since the check.
        let removal = Removal::of_instance(services, id).only_if(Some(Condition::NotRunning));
        let removed = removal.run().await?;
        if removed.instances_deleted == 0 {
            return Err(still_running(id));
        }
        add(&mut result, &removed);
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
    if force {
        let found = fence::find(services, id).await?;
        if !found.is_some_and(|found| found.document.is_created())
            && let Some(deleted) = forced::delete_unbegun(services, id).await?
        {
            return Ok(deleted);
        }
    }
    let instance = instances::existing(container, id).await?;
    if instance.parent_instance_id.is_some() {
        return Err(Error::Refused(format!(
            "instance {id} is a sub-orchestration; delete its root instance instead"
        )));
    }
    if force {
        return forced::delete_trees(services, &[id.to_owned()]).await;
    }
    let levels = instances::tree(container, vec![id.to_owned()]).await?;
    delete(services, &levels.concat(), force).await
}

async fn check_not_running(container: &ContainerClient<Durable>, id: &str) -> Result<()> {
    // Another process may just have started the instance.
    let found = history::read_instance(&container.latest_committed(), id).await?;
    if found.is_some_and(|stored| stored.document.is_running()) {
        return Err(still_running(id));
    }
    Ok(())
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
    if let Some(child) = children.iter().find(|child| !ids.contains(child)) {
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
