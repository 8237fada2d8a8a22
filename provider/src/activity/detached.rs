//! Ends of activities without their worker: a partition that throttles the end of an activity, or does
//! not answer it, would hold the worker that other partitions wait for.
//!
//! duroxide gets the error of a lost lock, and does not touch the activity again (duroxide 0.1.32,
//! `handle_activity_outcome`). The same holds for an end that the runtime breaks off when it shuts down. If
//! the lock expires before the end is stored, the activity runs again.

use std::time::Duration;

use duroxide::providers::WorkItem;
use tokio_util::sync::CancellationToken;

use super::ack::{abandon_locked, ack_locked};
use crate::error::{Error, Result};
use crate::queue::activities::Activities;
use crate::queue::local_queue::Shared;
use crate::queue::{CONCURRENCY, Services};
use crate::timing::COMMIT_REFUSED;

/// Implements `Provider::ack_work_item`. The worker of a runtime waits until its partition has throttled
/// the end of the activity for [`COMMIT_REFUSED`] or does not answer, while others answer. If a turn ends
/// the activity, it waits as long as the dispatcher of that turn: it sends no requests of its own.
///
/// # Errors
/// [`Error::LockLost`] when the end is stored without its worker.
pub(crate) async fn ack(
    services: &Services,
    token: &str,
    completion: Option<WorkItem>,
) -> Result<()> {
    let queue = services.activities().local();
    let running = queue.running(token)?;
    let (fetched, detached) = queue.with(|queue, _| (queue.fetched(token), queue.detached()));
    let Some((key, caller)) = fetched else {
        return Err(Error::LockLost("the activity has ended"));
    };
    let instance = key.instance_id;
    let stalled = CancellationToken::new();
    let (cloned, turn) = (services.clone(), stalled.clone());
    let mut ack = services.store.tasks.outliving(|left| async move {
        let ended = ack_locked(&cloned, &running, completion, turn).await;
        if let Err(error) = &ended
            && left.is_cancelled()
        {
            repeat(&cloned, &running, error).await;
        }
        ended
    });
    if !caller.is_runtime() || detached >= CONCURRENCY {
        return ack.await;
    }
    let partition = (&*instance).into();
    let container = services.container();
    tokio::select! {
        acknowledged = container.until_stalled(&partition, COMMIT_REFUSED, &mut ack) => {
            if let Ok(acknowledged) = acknowledged {
                return acknowledged;
            }
        }
        () = stalled.cancelled() => {}
    }
    queue.detach(token);
    tracing::warn!(
        %instance,
        "an activity is ended without its worker, because its partition throttles it or does not answer"
    );
    drop(ack);
    Err(Error::LockLost(
        "its partition does not answer; the activity is ended without the runtime",
    ))
}

/// Gives back an activity whose end was not stored. It runs again, at once or when its lock expires.
async fn repeat(services: &Services, running: &Shared<Activities>, error: &Error) {
    tracing::warn!(%error, "an activity was not ended without its worker");
    if let Err(error) = abandon_locked(services, running, Duration::ZERO, false).await {
        tracing::debug!(%error, "an activity was not released");
    }
}
