//! After the commit: what was cancelled goes, what is for others is delivered.
//!
//! None of it can fail the turn any more: what is not done here is done by a poll, by the reconciler, or proves
//! superfluous.

use std::collections::HashSet;

use cdb_model::{Batch, BulkBatch};
use duroxide::EventKind;
use duroxide::providers::ProviderError;

use super::commit::TurnResult;
use super::table::Turn;
use crate::documents::{Durable, OutboxIntent, WorkerItemKey};
use crate::error::{provider_error, unreadable};
use crate::outbox;
use crate::provider::Inner;
use crate::spill::Leftover;

/// Inputs that are longer may be in chunks; a shorter one never is.
const LARGE_INPUT: usize = 8 * 1024;

const CANCEL: &str = "cancel";

/// How often cancelled activities are tried to be deleted.
const MAX_TRIES: u32 = 4;

/// Activities that a turn has cancelled.
#[derive(Debug, Default)]
pub(super) struct Cancelled {
    small: Vec<WorkerItemKey>,
    /// Their inputs may be in chunks.
    large: Vec<WorkerItemKey>,
}

impl Cancelled {
    /// Told apart by the events that scheduled them.
    pub(super) fn of(turn: &Turn, result: &TurnResult) -> Self {
        let mut cancelled = Self::default();
        if result.cancelled.is_empty() {
            return cancelled;
        }
        let past = turn.past.as_ref().map(|past| &**past.events);
        let events = past.unwrap_or_default().iter().chain(&result.history_delta);
        let large: HashSet<u64> = events
            .filter(|event| {
                matches!(&event.kind, EventKind::ActivityScheduled { input, .. } if input.len() > LARGE_INPUT)
            })
            .map(|event| event.event_id)
            .collect();
        for activity in &result.cancelled {
            let key = WorkerItemKey::new(
                &*activity.instance,
                activity.execution_id,
                activity.activity_id,
            );
            if large.contains(&activity.activity_id) {
                cancelled.large.push(key);
            } else {
                cancelled.small.push(key);
            }
        }
        cancelled
    }

    pub(super) fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }
}

/// Removes what was cancelled, delivers what goes elsewhere.
pub(super) async fn after_commit(inner: &Inner, cancelled: Cancelled, intents: Vec<OutboxIntent>) {
    let deliveries = outbox::deliver_all(inner, intents);
    let cancellations = async {
        cancel(inner, cancelled.small).await;
        for key in &cancelled.large {
            cancel_large(inner, key).await;
        }
    };
    futures::join!(deliveries, cancellations);
}

/// Deletes cancelled activities. One that runs finds its item gone when it renews or ends; one that is missing has
/// already ended, or was deleted by a try whose answer was lost.
async fn cancel(inner: &Inner, mut open: Vec<WorkerItemKey>) {
    for _ in 0..MAX_TRIES {
        let mut bulk = BulkBatch::<Durable>::new();
        open.retain(|key| bulk.delete(key).is_ok());
        if bulk.is_empty() {
            return;
        }
        let results = inner.container.execute_bulk(&bulk).await.into_iter();
        let failed = results.map(|result| result.is_err_and(|error| !error.is_not_found()));
        let failed: Vec<bool> = failed.collect();
        let mut failed = failed.into_iter();
        open.retain(|_| failed.next().unwrap_or_default());
    }
    let count = open.len();
    tracing::warn!(count, "cancelled activities were not deleted and will run");
}

/// Deletes a cancelled activity together with the chunks of its input.
async fn cancel_large(inner: &Inner, key: &WorkerItemKey) {
    for _ in 0..MAX_TRIES {
        match delete_large(inner, key).await {
            Ok(()) => return,
            Err(error) => {
                tracing::debug!(%error, "a cancelled activity is tried to be deleted again");
            }
        }
    }
    tracing::warn!("a cancelled activity was not deleted and will run");
}

async fn delete_large(inner: &Inner, key: &WorkerItemKey) -> Result<(), ProviderError> {
    let found = inner.container.read(key).await;
    let found = found.map_err(|error| provider_error(CANCEL, &error))?;
    let Some(item) = found.map(|stored| stored.document) else {
        return Ok(());
    };
    let mut batch = Batch::<Durable>::new(&*item.instance_id);
    let leftover = Leftover::of(inner, &item.instance_id, [&item.work_item]);
    // Whoever runs it may have renewed its lock meanwhile, which makes no difference.
    batch
        .delete(key)
        .and_then(|_| match &leftover {
            Some(leftover) => leftover.add_to(&mut batch),
            None => Ok(()),
        })
        .map_err(|error| unreadable(CANCEL, error))?;
    match inner.container.execute(&batch).await {
        Err(error) if !error.is_not_found() => return Err(provider_error(CANCEL, &error)),
        _ => {}
    }
    if let Some(leftover) = leftover {
        leftover.remove(inner);
    }
    Ok(())
}
