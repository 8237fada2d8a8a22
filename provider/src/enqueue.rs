//! Work that comes from outside of a turn: starts, events, cancellations.

use std::time::Duration;

use duroxide::providers::{ProviderError, WorkItem};

use crate::documents::{OrchestratorItem, WorkerItem, target_instance};
use crate::error::{provider_error, unreadable};
use crate::provider::Inner;

/// Implements `Provider::enqueue_for_orchestrator`.
pub(crate) async fn message(
    inner: &Inner,
    item: &WorkItem,
    delay: Option<Duration>,
) -> Result<(), ProviderError> {
    const ENQUEUE: &str = "enqueue_for_orchestrator";
    let now = inner.enqueue_time();
    let delay = delay.unwrap_or_default();
    let due = match item {
        WorkItem::TimerFired { fire_at_ms, .. } => {
            cdb_model::Timestamp::from_millis(*fire_at_ms).max(now + delay)
        }
        _ => now + delay,
    };
    // Chosen before the first try, so that sending it twice stores it once.
    let cause = uuid::Uuid::new_v4().to_string();
    let document =
        OrchestratorItem::new(item, cause, due, now).map_err(|error| unreadable(ENQUEUE, error))?;
    store(inner.container.create(&document).await, ENQUEUE)?;
    inner.hint_instance(target_instance(item), document.execution_id, due.since(now));
    Ok(())
}

/// Implements `Provider::enqueue_for_worker`.
pub(crate) async fn activity(inner: &Inner, item: &WorkItem) -> Result<(), ProviderError> {
    const ENQUEUE: &str = "enqueue_for_worker";
    let document = WorkerItem::new(item, inner.enqueue_time())
        .map_err(|error| unreadable(ENQUEUE, error))?
        .ok_or_else(|| {
            ProviderError::permanent(
                ENQUEUE,
                "only ActivityExecute goes to the worker queue; use enqueue_for_orchestrator",
            )
        })?;
    store(inner.container.create(&document).await, ENQUEUE)?;
    inner.activities.quicken();
    Ok(())
}

/// An item that is there already was stored by an earlier try, or by the same cause.
fn store<T>(
    created: Result<T, cdb_client::Error>,
    operation: &'static str,
) -> Result<(), ProviderError> {
    match created {
        Err(error) if !error.is_conflict() => Err(provider_error(operation, &error)),
        _ => Ok(()),
    }
}
