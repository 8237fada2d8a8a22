//! Prunes old executions. Keeps the newest execution of an instance and every running one.

use cdb_client::ContainerClient;
use cdb_model::limits::MAX_BATCH_OPERATIONS;
use cdb_model::{Batch, Filter, Query, Timestamp};
use duroxide::providers::{InstanceFilter, PruneOptions, PruneResult};

use super::delete::MAX_ROUNDS;
use super::row::Row;
use super::{chunks, instances};
use crate::documents::{Durable, Execution, HistorySegment, Status};
use crate::error::{Error, Result};

/// The number of instances that one bulk call prunes without a limit of its own.
const DEFAULT_LIMIT: u32 = 1000;

/// Implements `ProviderAdmin::prune_executions`.
pub(crate) async fn prune(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    options: &PruneOptions,
) -> Result<PruneResult> {
    let instance = instances::existing(container, instance_id).await?;
    let executions = ended_executions(container, instance_id).await?;
    // The newest execution counts as kept, and is always kept.
    let kept = options
        .keep_last
        .map_or(0, |keep| usize::try_from(keep).unwrap_or(usize::MAX));
    let before = options.completed_before.map(Timestamp::from_millis);
    let mut result = PruneResult {
        instances_processed: 1,
        ..PruneResult::default()
    };
    for execution in executions.iter().skip(kept.saturating_sub(1)) {
        let protected = execution.execution_id == instance.current_execution_id
            || execution.status == Status::Running
            || before.is_some_and(|before| execution.completed_at.is_none_or(|at| at >= before));
        if !protected {
            result.events_deleted += remove(container, instance_id, execution.execution_id).await?;
            result.executions_deleted += 1;
        }
    }
    Ok(result)
}

/// Returns the executions that have a document, newest first. An execution that cannot be decoded
/// is kept until its instance is deleted.
async fn ended_executions(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<Vec<Execution>> {
    let query = Query::<Execution>::in_partition(instance_id);
    let rows = container.query(query).row_by_row().all().await?;
    let mut executions = Vec::with_capacity(rows.len());
    for row in rows {
        match row {
            Ok(stored) => executions.push(stored.document),
            Err(found) => {
                tracing::warn!(instance = instance_id, reason = %found, "cannot decode an execution; it is not pruned");
            }
        }
    }
    executions.sort_by_key(|execution| std::cmp::Reverse(execution.execution_id));
    Ok(executions)
}

/// Implements `ProviderAdmin::prune_executions_bulk`, also for running instances.
pub(crate) async fn prune_bulk(
    container: &ContainerClient<Durable>,
    filter: &InstanceFilter,
    options: &PruneOptions,
) -> Result<PruneResult> {
    let everything = Filter::all();
    let found = instances::filtered(container, filter, everything, DEFAULT_LIMIT).await?;
    let mut result = PruneResult::default();
    for instance_id in found {
        let pruned = prune(container, &instance_id, options).await?;
        result.instances_processed += pruned.instances_processed;
        result.executions_deleted += pruned.executions_deleted;
        result.events_deleted += pruned.events_deleted;
    }
    Ok(result)
}

/// Deletes an execution and returns its number of events. Deletes chunks first, then the history,
/// then the execution, so that the next call finds and finishes a partial removal.
///
/// After a lost answer the documents are read again: those that are missing were deleted.
async fn remove(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    execution_id: u64,
) -> Result<u64> {
    let mut events = None;
    for _ in 0..MAX_ROUNDS {
        let rows = execution(container, instance_id, execution_id).await?;
        let found = rows.iter().map(|row| match &row.document {
            Some(Durable::History(segment)) => segment.event_count,
            _ => 0,
        });
        let events = *events.get_or_insert_with(|| found.sum());
        let documents = rows.iter().filter_map(|row| row.document.as_ref());
        chunks::delete_of(container, documents).await?;
        match remove_rows(container, instance_id, &rows).await {
            Ok(()) => return Ok(events),
            Err(Error::Request(error))
                if error.is_ambiguous()
                    || error.is_not_found()
                    || error.is_precondition_failed() => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Retryable(format!(
        "execution {execution_id} of {instance_id} was not deleted; prune again"
    )))
}

/// Returns all documents of an execution, its history first.
async fn execution(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    execution_id: u64,
) -> Result<Vec<Row>> {
    let wanted = HistorySegment::EXECUTION_ID.eq(execution_id).within()
        | Execution::EXECUTION_ID.eq(execution_id).within();
    let rows = container
        .query(Query::<Durable>::in_partition(instance_id).filter(wanted))
        .row_by_row()
        .all()
        .await?;
    let mut rows: Vec<Row> = rows
        .into_iter()
        .filter_map(|row| Row::of(instance_id, row))
        .collect();
    rows.sort_by_key(|row| matches!(row.document, Some(Durable::Execution(_))));
    Ok(rows)
}

async fn remove_rows(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    rows: &[Row],
) -> Result<()> {
    for chunk in rows.chunks(MAX_BATCH_OPERATIONS) {
        let mut batch = Batch::<Durable>::new(instance_id);
        for row in chunk {
            row.add_delete(&mut batch)?;
        }
        container.execute(&batch).await?;
    }
    Ok(())
}
