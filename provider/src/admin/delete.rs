//! Deletes instances with all their documents.
//!
//! An instance is a partition. One atomic batch deletes a partition of up to 100 documents. A
//! larger partition takes several: the first write of the instance prevents a running turn from
//! committing; then the queues are deleted, so that no other turn starts; the instance is deleted
//! last. If this is interrupted, the instance still exists and a repeated call finishes the work.

use std::collections::BTreeSet;

use cdb_client::ContainerClient;
use cdb_model::limits::MAX_BATCH_OPERATIONS;
use cdb_model::{Batch, Filter, Query};
use duroxide::providers::{DeleteInstanceResult, InstanceFilter};

use super::row::Row;
use super::{chunks, instances, withdraw};
use crate::admission;
use crate::documents::{Chunk, Durable, Instance, NEVER, OutboxIntent, Status};
use crate::error::{Error, Result};
use crate::history;

/// The number of instances that one bulk call deletes without a limit of its own.
const DEFAULT_LIMIT: u32 = 1000;
/// The most reads of a partition that changes during its deletion, or whose answers were lost.
pub(super) const MAX_ROUNDS: u32 = 10;

/// Implements `ProviderAdmin::delete_instances_atomic`.
pub(crate) async fn delete(
    container: &ContainerClient<Durable>,
    ids: &[String],
    force: bool,
) -> Result<DeleteInstanceResult> {
    ids.iter()
        .try_for_each(|id| admission::check_not_reserved(id))?;
    if !force {
        check_not_running(container, ids).await?;
    }
    check_complete(container, ids).await?;
    if ids.len() > 1 {
        // A start delivered to a child after its deletion would recreate the child.
        for id in ids {
            drop_intents(container, id).await?;
        }
    }
    let mut result = DeleteInstanceResult::default();
    // Children first: while the parent exists, an interrupted deletion can be found and repeated.
    for id in ids.iter().rev() {
        delete_partition(container, id, &mut result).await?;
    }
    result.instances_deleted = ids.len() as u64;
    Ok(result)
}

async fn check_not_running(container: &ContainerClient<Durable>, ids: &[String]) -> Result<()> {
    for id in ids {
        let found = history::read_instance(container, id).await?;
        if found.is_some_and(|stored| stored.document.status == Status::Running) {
            return Err(Error::Refused(format!(
                "instance {id} is still running; cancel it first, or delete it with force"
            )));
        }
    }
    Ok(())
}

/// Checks that the children of all instances are to be deleted too.
async fn check_complete(container: &ContainerClient<Durable>, ids: &[String]) -> Result<()> {
    for id in ids {
        let children = instances::children(container, id).await?;
        if let Some(child) = children.iter().find(|child| !ids.contains(child)) {
            return Err(Error::Refused(format!(
                "instance {id} has a child {child} that is not among the instances to delete; \
                 read the tree again"
            )));
        }
    }
    Ok(())
}

/// Deletes the undelivered intents of an instance. Intents with chunks are withdrawn with its
/// partition.
async fn drop_intents(container: &ContainerClient<Durable>, instance_id: &str) -> Result<()> {
    let all = Query::<OutboxIntent>::in_partition(instance_id);
    let found = container.query(all).row_by_row().all().await?;
    for stored in found.into_iter().flatten() {
        let mut texts = stored.document.items.iter().map(|item| &item.work_item);
        if stored.document.more.is_some() || texts.any(|text| text.chunked().is_some()) {
            continue;
        }
        match container.delete_stored(&stored).await {
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
    container: &ContainerClient<Durable>,
    filter: &InstanceFilter,
) -> Result<DeleteInstanceResult> {
    let ended = Instance::STATUS.is_in([Status::Completed, Status::Failed, Status::ContinuedAsNew]);
    let root = Instance::PARENT_INSTANCE_ID.is_null() | !Instance::PARENT_INSTANCE_ID.is_defined();
    let roots = instances::filtered(container, filter, ended & root, DEFAULT_LIMIT).await?;
    let mut result = DeleteInstanceResult::default();
    for root in roots {
        let tree = instances::tree(container, root).await?;
        let deleted = delete(container, &tree, true).await?;
        result.instances_deleted += deleted.instances_deleted;
        result.executions_deleted += deleted.executions_deleted;
        result.events_deleted += deleted.events_deleted;
        result.queue_messages_deleted += deleted.queue_messages_deleted;
    }
    Ok(result)
}

/// The deleted documents of a partition.
#[derive(Default)]
struct Removal {
    gone: Vec<Row>,
    /// Sent to be deleted, with an unknown outcome.
    unconfirmed: Vec<Row>,
}

/// Deletes all documents in the partition of an instance.
pub(super) async fn delete_partition(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    result: &mut DeleteInstanceResult,
) -> Result<()> {
    let mut removal = Removal::default();
    for _ in 0..MAX_ROUNDS {
        let rows = rows_to_delete(container, instance_id).await?;
        // After a lost answer the partition tells what happened.
        let open = std::mem::take(&mut removal.unconfirmed);
        let is_gone = |row: &Row| rows.iter().all(|left| left.location.id != row.location.id);
        removal.gone.extend(open.into_iter().filter(is_gone));
        match delete_rows(container, instance_id, rows, &mut removal).await {
            Ok(()) => {
                let counted = count(&removal.gone);
                result.executions_deleted += counted.executions_deleted;
                result.events_deleted += counted.events_deleted;
                result.queue_messages_deleted += counted.queue_messages_deleted;
                return Ok(());
            }
            // The partition changed during the deletion, or the outcome is unknown: it is read
            // again.
            Err(Error::Request(error))
                if error.is_precondition_failed()
                    || error.is_not_found()
                    || error.is_ambiguous() => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Retryable(format!(
        "instance {instance_id} keeps changing, or the service does not answer"
    )))
}

/// Reads the documents of a partition in the order of their deletion, without chunks. The chunks
/// may be many megabytes, so only their names are read, later.
async fn rows_to_delete(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<Vec<Row>> {
    let all = Query::<Durable>::in_partition(instance_id);
    let rows = container.query(all.filter(!Filter::of_type::<Chunk>()));
    let rows = rows.row_by_row().all().await?.into_iter();
    let mut rows: Vec<Row> = rows.filter_map(|row| Row::of(instance_id, row)).collect();
    rows.sort_by_key(|row| row.document.as_ref().map_or(1, rank));
    Ok(rows)
}

/// Returns the position in the deletion: queues first, the instance last.
fn rank(document: &Durable) -> u8 {
    match document {
        Durable::OrchestratorItem(_) | Durable::WorkerItem(_) => 0,
        Durable::Instance(_) => 2,
        _ => 1,
    }
}

fn count(rows: &[Row]) -> DeleteInstanceResult {
    let mut counted = DeleteInstanceResult::default();
    let mut executions = BTreeSet::new();
    for document in rows.iter().filter_map(|row| row.document.as_ref()) {
        match document {
            Durable::OrchestratorItem(item) if item.visible_at == NEVER => {}
            Durable::OrchestratorItem(_) | Durable::WorkerItem(_) => {
                counted.queue_messages_deleted += 1;
            }
            Durable::History(segment) => {
                counted.events_deleted += segment.event_count;
                executions.insert(segment.execution_id);
            }
            Durable::Execution(execution) => {
                executions.insert(execution.execution_id);
            }
            Durable::Instance(instance) if instance.commit_token.is_some() => {
                executions.insert(instance.current_execution_id);
            }
            _ => {}
        }
    }
    counted.executions_deleted = executions.len() as u64;
    counted
}

async fn delete_rows(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    mut rows: Vec<Row>,
    removal: &mut Removal,
) -> Result<()> {
    let refers = |row: &Row| row.document.as_ref().is_none_or(chunks::refers);
    let has_chunks = rows.is_empty() || rows.iter().any(refers);
    if has_chunks || rows.len() > MAX_BATCH_OPERATIONS {
        fence(container, &mut rows).await?;
    }
    if has_chunks {
        // Before the instance, so that an interrupted deletion can be found and repeated.
        withdraw::from_targets(container, &mut rows).await?;
        chunks::delete_all(container, instance_id).await?;
    }
    for chunk in rows.chunks(MAX_BATCH_OPERATIONS) {
        let mut batch = Batch::<Durable>::new(instance_id);
        for row in chunk {
            row.add_delete(&mut batch)?;
        }
        match container.execute(&batch).await {
            Ok(_) => removal.gone.extend_from_slice(chunk),
            Err(error) => {
                // A refusal may also be caused by an earlier attempt.
                removal.unconfirmed.extend_from_slice(chunk);
                return Err(error.into());
            }
        }
    }
    Ok(())
}

/// Writes the instance unchanged. Its version changes, so that the holder of its lock cannot commit
/// any more.
async fn fence(container: &ContainerClient<Durable>, rows: &mut [Row]) -> Result<()> {
    for row in rows {
        if let Some(Durable::Instance(instance)) = &row.document {
            let written = container
                .replace_if_match(instance, &row.location.etag)
                .await?;
            row.location.etag = written.etag;
        }
    }
    Ok(())
}
