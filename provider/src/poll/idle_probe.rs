//! One cheap query for all queues while they are idle.
//!
//! Each queue has its own poll, which queries for the work that this process can run. After empty
//! polls, one probe for all queues precedes the next poll: is any item due? Its answer serves every
//! queue, so an idle provider sends one request per interval.

use std::time::Duration;

use cdb_model::{Filter, Query};
use tokio::time::Instant;

use crate::documents::{Durable, FIRST_DUE, OrchestratorItem, OutboxIntent, WorkerItem};
use crate::error::Result;
use crate::services::Services;

/// The poll interval from which on the probe precedes each poll.
const IDLE_INTERVAL: Duration = Duration::from_millis(200);

/// Runs `poll`, unless no item is due at all. `interval` is the time between the last two polls.
///
/// # Errors
/// Fails when the probe or `poll` fails.
pub(crate) async fn unless_idle<T: Default>(
    services: &Services,
    interval: Duration,
    poll: impl Future<Output = Result<T>>,
) -> Result<T> {
    if interval >= IDLE_INTERVAL && is_idle(services, interval).await? {
        return Ok(T::default());
    }
    poll.await
}

/// Returns whether no item is due, by a probe younger than `interval`.
pub(crate) async fn is_idle(services: &Services, interval: Duration) -> Result<bool> {
    let mut last = services.queues.last_probe.lock().await;
    // A little less than the interval, so that a caller at this interval gets a new answer each
    // time.
    let fresh = interval * 9 / 10;
    if let Some((at, idle)) = *last
        && at.elapsed() < fresh
    {
        return Ok(idle);
    }
    let sent_at = Instant::now();
    let idle = nothing_is_due(services).await?;
    let was_idle = last.replace((sent_at, idle)).is_none_or(|(_, idle)| idle);
    // Items that stay due cannot be run here, and do not speed up the polls.
    if was_idle && !idle {
        services.instances().local().poll_soon();
        services.activities().local().poll_soon();
    }
    Ok(idle)
}

async fn nothing_is_due(services: &Services) -> Result<bool> {
    let now = services.store.now();
    let undelivered = now - services.delivery.reconciler_age;
    let mut due: Filter<Durable> = OutboxIntent::CREATED_AT.le(undelivered).within();
    let scope = services.queues.scope.widest().await;
    if !scope.is_empty() {
        let (visible_at, slot) = (
            OrchestratorItem::VISIBLE_AT,
            OrchestratorItem::DISPATCH_SLOT,
        );
        due = scope.due(visible_at, slot, FIRST_DUE, now).within() | due;
        let (visible_at, slot) = (WorkerItem::VISIBLE_AT, WorkerItem::DISPATCH_SLOT);
        due = scope.due(visible_at, slot, FIRST_DUE, now).within() | due;
    }
    let query = Query::<Durable>::across_partitions().filter(due).top(1);
    let found = services.container().query(query).row_by_row().all().await?;
    Ok(found.is_empty())
}
