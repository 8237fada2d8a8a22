//! The executions of an instance. The instance document holds the newest; each earlier execution
//! has a document.

use std::collections::BTreeSet;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use duroxide::providers::ExecutionInfo;

use super::instances::{existing, output};
use crate::error::{Error, Result};
use crate::stored::documents::{
    Durable, Execution, ExecutionKey, HistorySegment, Instance, Status,
};
use crate::stored::history;

/// Implements `ProviderAdmin::list_executions`.
pub(crate) async fn list(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<Vec<u64>> {
    let Some(stored) = history::read_instance(container, instance_id).await? else {
        return Ok(Vec::new());
    };
    if stored.document.status == Status::Pending && stored.document.commit_token.is_none() {
        return Ok(Vec::new());
    }
    let ended = Query::<Execution>::in_partition(instance_id).values(Execution::EXECUTION_ID);
    let mut found: BTreeSet<u64> = container.query(ended).all().await?.into_iter().collect();
    // For executions that `duroxide-cdb` has ended, only history documents exist.
    let recorded =
        Query::<HistorySegment>::in_partition(instance_id).values(HistorySegment::EXECUTION_ID);
    found.extend(container.query(recorded).all().await?);
    found.insert(stored.document.current_execution_id);
    Ok(found.into_iter().collect())
}

/// Implements `ProviderAdmin::latest_execution_id`. An unknown instance begins with execution 1, as
/// in duroxide's own store (its tests/management_interface_test.rs).
pub(crate) async fn latest(container: &ContainerClient<Durable>, instance_id: &str) -> Result<u64> {
    let found = history::read_instance(container, instance_id).await?;
    Ok(found.map_or(1, |stored| stored.document.current_execution_id))
}

/// Implements `ProviderAdmin::get_execution_info`.
pub(crate) async fn info(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    execution_id: u64,
) -> Result<ExecutionInfo> {
    let instance = existing(container, instance_id).await?;
    let segments = history::read_segments(container, instance_id, execution_id).await?;
    let events = segments.documents.iter().map(|segment| segment.event_count);
    let events: u64 = events.sum();
    let execution = find(container, instance, execution_id, events > 0).await?;
    let unknown = || format!("execution {execution_id} of instance {instance_id} not found");
    let execution = execution.ok_or_else(|| Error::Refused(unknown()))?;
    Ok(ExecutionInfo {
        execution_id,
        status: execution.status.to_string(),
        output: output(container, execution.output).await?,
        started_at: execution.started_at.as_millis(),
        completed_at: execution.completed_at.map(Timestamp::as_millis),
        event_count: usize::try_from(events).unwrap_or(usize::MAX),
    })
}

/// Returns an execution of an instance; `None` when it does not exist.
async fn find(
    container: &ContainerClient<Durable>,
    instance: Instance,
    execution_id: u64,
    has_history: bool,
) -> Result<Option<Execution>> {
    if instance.current_execution_id == execution_id {
        return Ok(Some(Execution::newest(&instance)));
    }
    let key = ExecutionKey::new(&*instance.instance_id, execution_id);
    let ended = container.read(&key).await?.map(|stored| stored.document);
    // `duroxide-cdb` keeps only the history of an ended execution.
    let legacy = || Execution {
        status: Status::ContinuedAsNew,
        output: None,
        started_at: instance.created_at,
        completed_at: None,
        rewound: None,
        execution_id,
        instance_id: instance.instance_id,
    };
    Ok(ended.or_else(|| has_history.then(legacy)))
}
