//! After the commit: what was cancelled goes, what is for others is delivered.
//!
//! None of it can fail the turn any more: what is not done here is done by a poll, by the reconciler, or proves
//! superfluous.

use cdb_model::BulkBatch;
use duroxide::providers::ScheduledActivityIdentifier;

use crate::documents::{Durable, OutboxIntent, WorkerItemKey};
use crate::outbox;
use crate::provider::Inner;

/// How often cancelled activities are tried to be deleted.
const MAX_TRIES: u32 = 4;

/// Removes what was cancelled, delivers what goes elsewhere.
pub(super) async fn after_commit(
    inner: &Inner,
    cancelled: &[ScheduledActivityIdentifier],
    intents: Vec<OutboxIntent>,
) {
    let deliveries = outbox::deliver_all(inner, intents);
    let cancellations = cancel(inner, cancelled);
    futures::join!(deliveries, cancellations);
}

/// Deletes cancelled activities. One that runs finds its item gone when it renews or ends; one that is missing has
/// already ended, or was deleted by a try whose answer was lost.
async fn cancel(inner: &Inner, cancelled: &[ScheduledActivityIdentifier]) {
    let mut open: Vec<WorkerItemKey> = cancelled
        .iter()
        .map(|activity| {
            WorkerItemKey::new(
                &*activity.instance,
                activity.execution_id,
                activity.activity_id,
            )
        })
        .collect();
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
