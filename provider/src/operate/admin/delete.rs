//! Deletes instances with all their documents.
//!
//! An instance is a partition. One atomic batch deletes a partition of up to 100 documents. A
//! larger partition takes several: the first write of the instance prevents a running turn from
//! committing; then the queues are deleted, so that no other turn starts; the instance is deleted
//! last. If this is interrupted, the instance still exists and a repeated call finishes the work.

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use duroxide::providers::{DeleteInstanceResult, InstanceFilter};

use super::instances;
use super::purge::Purge;
use super::removal::{Condition, Removal, add};
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::{Durable, OutboxIntent};
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
    if ids.len() > 1 {
        // A start delivered to a child after its deletion would recreate the child.
        for id in ids {
            drop_intents(container, id, ids).await?;
        }
    }
    let mut result = DeleteInstanceResult::default();
    if force && delete_unbegun_children(services, ids, &mut result).await? {
        // A child that has begun meanwhile is not among the instances to delete.
        for id in ids {
            check_complete(container, id, ids).await?;
        }
    }
    // Children first: while the parent exists, an interrupted deletion can be found and repeated.
    for id in ids.iter().rev() {
        // It may have been rewound or started again since the check.
        let condition = (!force).then_some(Condition::NotRunning);
        let removal = Removal::of_instance(services, id).only_if(condition);
        let removed = removal.run().await?;
        if removed.instances_deleted == 0 {
            return Err(still_running(id));
        }
        add(&mut result, &removed);
    }
    Ok(result)
}

/// Deletes the children of running instances that have not begun: no query finds them. Their starts
/// that are undelivered end with the intents of their parents. Returns whether there may be such
/// children.
async fn delete_unbegun_children(
    services: &Services,
    ids: &[String],
    result: &mut DeleteInstanceResult,
) -> Result<bool> {
    let latest = services.container().latest_committed();
    let mut any = false;
    for parent in ids {
        let found = history::read_instance(&latest, parent).await?;
        let Some(found) = found.filter(|found| found.document.is_running()) else {
            continue;
        };
        let execution = found.document.current_execution_id;
        let events = match history::read_execution(&latest, parent, execution).await {
            Ok(events) => events,
            Err(error) if error.is_retryable() => return Err(error),
            // A damaged history names no children. It must not keep its instance from being deleted.
            Err(_) => continue,
        };
        let children = history::open_children(&events, parent).into_iter();
        for child in children.filter(|child| !ids.contains(child)) {
            any = true;
            let condition = Some(Condition::NotBegun { parent });
            let removal = Removal::of_instance(services, &child).only_if(condition);
            add(result, &removal.run().await?);
        }
    }
    Ok(any)
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

/// Deletes the undelivered intents of an instance for those that are deleted with it. Intents with
/// chunks are withdrawn with its partition.
async fn drop_intents(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    ids: &[String],
) -> Result<()> {
    let all = Query::<OutboxIntent>::in_partition(instance_id);
    let found = container.query(all).row_by_row().all().await?;
    for stored in found.into_iter().flatten() {
        if stored.document.has_chunks() || !ids.contains(&stored.document.target_instance_id) {
            continue;
        }
        match container.run(stored.delete()).await {
            // Another runtime has delivered the intent, or noted that it could not.
            Err(error) if error.is_not_found() || error.is_precondition_failed() => {}
            // After a lost answer, the deletion of the partition reads the intents again.
            Err(error) if error.is_ambiguous() => {}
            deleted => deleted?,
        }
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
