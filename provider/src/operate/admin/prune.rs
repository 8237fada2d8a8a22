//! Prunes old executions. Keeps the newest execution of an instance and every running one.

use std::collections::BTreeMap;

use cdb_client::ContainerClient;
use cdb_coordination::membership::SlotSet;
use cdb_model::query::Filter;
use cdb_model::{Query, Timestamp};
use duroxide::providers::{InstanceFilter, PruneOptions, PruneResult};

use super::instances;
use super::purge::SLICE;
use super::removal::Removal;
use crate::error::Result;
use crate::stored::documents::{Durable, Execution, Incarnation, Status, dispatch_slot};
use crate::stored::history;

/// The number of instances that one bulk call prunes without a limit of its own.
const DEFAULT_LIMIT: u32 = 1000;

/// Implements `ProviderAdmin::prune_executions`.
pub(crate) async fn prune(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    options: &PruneOptions,
) -> Result<PruneResult> {
    let instance = instances::existing(container, instance_id).await?;
    let found = Incarnation::of(&instance);
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
            let execution_id = execution.execution_id;
            let removed = Removal::of_executions(container, &found, [execution_id])
                .run()
                .await?;
            result.events_deleted += removed.counts.events_deleted;
            if removed.counts.instances_deleted == 0 {
                // The instance was deleted, with its executions.
                break;
            }
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
    let (container, everything) = (&container.in_background(), Filter::all());
    let found = instances::filtered(container, filter, everything, DEFAULT_LIMIT).await?;
    let mut result = PruneResult::default();
    for found in found {
        let pruned = prune(container, &found.instance_id, options).await?;
        result.instances_processed += pruned.instances_processed;
        result.executions_deleted += pruned.executions_deleted;
        result.events_deleted += pruned.events_deleted;
    }
    Ok(result)
}

/// Prunes up to a hundred executions that were replaced before this time, of instances in these
/// slots. Returns their number.
pub(crate) async fn prune_slice(
    container: &ContainerClient<Durable>,
    ended_before: Timestamp,
    slots: &SlotSet,
) -> Result<u64> {
    let (container, mut pruned) = (&container.in_background(), 0);
    for (instance_id, executions) in replaced_before(container, ended_before, slots).await? {
        let Some(stored) = history::read_instance(container, &instance_id).await? else {
            continue;
        };
        let current = stored.document.current_execution_id;
        let old: Vec<u64> = executions.into_iter().filter(|id| *id < current).collect();
        pruned += old.len() as u64;
        let found = Incarnation::of(&stored.document);
        let mut removal = Removal::of_executions(container, &found, old);
        removal.run().await?;
    }
    Ok(pruned)
}

/// Returns replaced executions by instance.
async fn replaced_before(
    container: &ContainerClient<Durable>,
    ended_before: Timestamp,
    slots: &SlotSet,
) -> Result<BTreeMap<String, Vec<u64>>> {
    let query =
        Query::<Execution>::across_partitions().filter(Execution::COMPLETED_AT.lt(ended_before));
    let rows = u32::try_from(SLICE).unwrap_or(u32::MAX);
    let query = container.query(query).page_size(rows).row_by_row();
    let mut pages = query.pages();
    let (mut found, mut count) = (BTreeMap::<String, Vec<u64>>::new(), 0);
    while count < SLICE
        && let Some(page) = pages.next_page().await?
    {
        let page = page.into_iter().flatten().map(|row| row.document);
        let mine = page.filter(|execution| slots.contains(dispatch_slot(&execution.instance_id)));
        for execution in mine.filter(|execution| execution.status != Status::Running) {
            count += 1;
            let executions = found.entry(execution.instance_id).or_default();
            executions.push(execution.execution_id);
        }
    }
    Ok(found)
}
