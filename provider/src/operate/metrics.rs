//! Counts of instances, events and queue items, computed by the service.
//!
//! duroxide asks for them in every runtime when it starts, and then every minute. They cost request
//! units in each physical partition, and the more documents there are, the more. So an expensive
//! answer serves several calls.

use std::future::Future;
use std::time::Duration;

use cdb_client::{ContainerClient, measure_charge};
use cdb_model::Query;
use cdb_model::query::{Filter, QueriedIn};
use duroxide::providers::{QueueDepths, SystemMetrics};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::Result;
use crate::stored::documents::{
    Durable, Execution, FIRST_DUE, HistorySegment, Instance, OrchestratorItem, PAUSED, Status,
    WorkerItem,
};
use crate::timing::METRICS_AGE;

/// The request units up to which each call computes a new answer.
const CHEAP: f64 = 250.0;

/// The request units per second that new answers may cost on average, once they are expensive.
const MAX_RATE: f64 = 5.0;

/// The last expensive answers.
#[derive(Default)]
pub(crate) struct Metrics {
    system: LastAnswer<SystemMetrics>,
    queue_depths: LastAnswer<QueueDepths>,
}

impl Metrics {
    /// Implements `ProviderAdmin::get_system_metrics`.
    pub(crate) async fn system(
        &self,
        container: &ContainerClient<Durable>,
    ) -> Result<SystemMetrics> {
        self.system.or_new(Box::pin(system(container))).await
    }

    /// Implements `ProviderAdmin::get_queue_depths`.
    pub(crate) async fn queue_depths(
        &self,
        container: &ContainerClient<Durable>,
    ) -> Result<QueueDepths> {
        self.queue_depths
            .or_new(Box::pin(queue_depths(container)))
            .await
    }
}

/// An answer, and the time until which it serves further calls.
#[derive(Default)]
struct LastAnswer<T>(Mutex<Option<(T, Instant)>>);

impl<T: Clone> LastAnswer<T> {
    /// Returns the last answer while it is valid, otherwise a new one. Concurrent calls wait for
    /// the same answer.
    async fn or_new(&self, read: impl Future<Output = Result<T>>) -> Result<T> {
        let mut last = self.0.lock().await;
        if let Some((answer, until)) = &*last
            && Instant::now() < *until
        {
            return Ok(answer.clone());
        }
        let (answer, charge) = measure_charge(read).await;
        let answer = answer?;
        *last = (charge > CHEAP).then(|| (answer.clone(), Instant::now() + age(charge)));
        Ok(answer)
    }
}

/// Returns the time for which an answer of this charge serves further calls.
fn age(charge: f64) -> Duration {
    Duration::try_from_secs_f64(charge / MAX_RATE).map_or(METRICS_AGE, |age| age.min(METRICS_AGE))
}

/// Counts the documents that match a filter.
pub(crate) async fn count<D: QueriedIn<Durable>>(
    container: &ContainerClient<Durable>,
    filter: Filter<D>,
) -> cdb_client::Result<u64> {
    let query = Query::<D>::across_partitions().filter(filter).count();
    Ok(container.query(query).all().await?.into_iter().sum())
}

async fn system(container: &ContainerClient<Durable>) -> Result<SystemMetrics> {
    let with = |status: Status| count(container, Instance::STATUS.eq(status));
    // An instance between two executions is running, too.
    let running = [Status::Running, Status::ContinuedAsNew];
    let running = count(container, Instance::STATUS.is_in(running));
    let events = Query::<HistorySegment>::across_partitions().sum(HistorySegment::EVENT_COUNT);
    let events = async { container.query(events).all().await };
    let (running, completed, failed, executions, events) = futures::try_join!(
        running,
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

async fn queue_depths(container: &ContainerClient<Durable>) -> Result<QueueDepths> {
    let now = container.now();
    let due_at = OrchestratorItem::VISIBLE_AT;
    let (messages, timers, activities) = futures::try_join!(
        count(container, due_at.between(FIRST_DUE, now)),
        count(container, due_at.gt(now) & due_at.lt(PAUSED)),
        count(container, WorkerItem::VISIBLE_AT.between(FIRST_DUE, now)),
    )?;
    let depth = |count| usize::try_from(count).unwrap_or(usize::MAX);
    Ok(QueueDepths {
        orchestrator_queue: depth(messages),
        worker_queue: depth(activities),
        timer_queue: depth(timers),
    })
}
