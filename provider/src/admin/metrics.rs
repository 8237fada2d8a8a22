//! Counts of instances, events and queue items, computed by the service.

use cdb_client::ContainerClient;
use cdb_model::{Filter, Query};
use duroxide::providers::{QueueDepths, SystemMetrics};

use crate::documents::{
    Durable, Execution, FIRST_DUE, HistorySegment, Instance, NEVER, OrchestratorItem, Status,
    WorkerItem,
};
use crate::error::Result;

/// Implements `ProviderAdmin::get_system_metrics`.
pub(crate) async fn system(container: &ContainerClient<Durable>) -> Result<SystemMetrics> {
    let instances = |filter: Filter<Instance>| {
        container
            .query(
                Query::<Instance>::across_partitions()
                    .filter(filter)
                    .count(),
            )
            .all()
    };
    let with = |status: Status| Instance::STATUS.eq(status);
    let (running, completed, failed, executions, events) = futures::try_join!(
        instances(with(Status::Running)),
        instances(with(Status::Completed)),
        instances(with(Status::Failed)),
        container
            .query(Query::<Execution>::across_partitions().count())
            .all(),
        container
            .query(Query::<HistorySegment>::across_partitions().sum(HistorySegment::EVENT_COUNT))
            .all(),
    )?;
    let sum = |counts: &[u64]| counts.iter().sum::<u64>();
    let (running, completed, failed) = (sum(&running), sum(&completed), sum(&failed));
    let total = running + completed + failed;
    Ok(SystemMetrics {
        total_instances: total,
        // The newest execution of an instance is stored in the instance, all others in documents.
        total_executions: sum(&executions) + total,
        running_instances: running,
        completed_instances: completed,
        failed_instances: failed,
        total_events: sum(&events),
    })
}

/// Implements `ProviderAdmin::get_queue_depths`.
pub(crate) async fn queue_depths(container: &ContainerClient<Durable>) -> Result<QueueDepths> {
    let now = container.now();
    let messages = Query::<OrchestratorItem>::across_partitions()
        .filter(OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, now))
        .count();
    let timers = Query::<OrchestratorItem>::across_partitions()
        .filter(OrchestratorItem::VISIBLE_AT.gt(now) & OrchestratorItem::VISIBLE_AT.lt(NEVER))
        .count();
    let activities = Query::<WorkerItem>::across_partitions()
        .filter(WorkerItem::VISIBLE_AT.between(FIRST_DUE, now))
        .count();
    let (messages, timers, activities) = futures::try_join!(
        container.query(messages).all(),
        container.query(timers).all(),
        container.query(activities).all(),
    )?;
    let depth =
        |counts: Vec<u64>| usize::try_from(counts.iter().sum::<u64>()).unwrap_or(usize::MAX);
    Ok(QueueDepths {
        orchestrator_queue: depth(messages),
        worker_queue: depth(activities),
        timer_queue: depth(timers),
    })
}
