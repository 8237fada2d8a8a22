//! Counts of instances, events and queue items, computed by the service.

use cdb_client::ContainerClient;
use cdb_model::{Filter, QueriedIn, Query};
use duroxide::providers::{QueueDepths, SystemMetrics};

use crate::documents::{
    Durable, Execution, FIRST_DUE, HistorySegment, Instance, NEVER, OrchestratorItem, Status,
    WorkerItem,
};
use crate::error::Result;

/// Counts the documents that match a filter.
pub(super) async fn count<D: QueriedIn<Durable>>(
    container: &ContainerClient<Durable>,
    filter: Filter<D>,
) -> Result<u64> {
    let query = Query::<D>::across_partitions().filter(filter).count();
    Ok(container.query(query).all().await?.into_iter().sum())
}

/// Implements `ProviderAdmin::get_system_metrics`.
pub(crate) async fn system(container: &ContainerClient<Durable>) -> Result<SystemMetrics> {
    let with = |status: Status| count(container, Instance::STATUS.eq(status));
    let events = Query::<HistorySegment>::across_partitions().sum(HistorySegment::EVENT_COUNT);
    let events = async { Ok(container.query(events).all().await?) };
    let (running, completed, failed, executions, events) = futures::try_join!(
        with(Status::Running),
        with(Status::Completed),
        with(Status::Failed),
        count(container, Filter::<Execution>::all()),
        events,
    )?;
    let total = running + completed + failed;
    Ok(SystemMetrics {
        total_instances: total,
        // The newest execution of an instance is stored in the instance, all others in documents.
        total_executions: executions + total,
        running_instances: running,
        completed_instances: completed,
        failed_instances: failed,
        total_events: events.iter().sum(),
    })
}

/// Implements `ProviderAdmin::get_queue_depths`.
pub(crate) async fn queue_depths(container: &ContainerClient<Durable>) -> Result<QueueDepths> {
    let now = container.now();
    let due_at = OrchestratorItem::VISIBLE_AT;
    let (messages, timers, activities) = futures::try_join!(
        count(container, due_at.between(FIRST_DUE, now)),
        count(container, due_at.gt(now) & due_at.lt(NEVER)),
        count(container, WorkerItem::VISIBLE_AT.between(FIRST_DUE, now)),
    )?;
    let depth = |count| usize::try_from(count).unwrap_or(usize::MAX);
    Ok(QueueDepths {
        orchestrator_queue: depth(messages),
        worker_queue: depth(activities),
        timer_queue: depth(timers),
    })
}
