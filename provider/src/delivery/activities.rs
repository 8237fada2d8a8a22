//! Delivers activities that did not fit into the commit that schedules them, and cancellations of
//! activities, whose delivery deletes their items.
//!
//! An activity's item is deleted when the activity ends, so its id does not prove an earlier
//! delivery. Each batch creates an inbox record: a second delivery conflicts with the record and
//! changes nothing.
//!
//! A worker detects the missing item of a cancelled activity when it renews or ends the activity. A
//! missing item belongs to an activity that has ended or was deleted by an earlier delivery, or to
//! one that did not fit into the commit that schedules it and whose intent is not delivered yet.

use std::collections::BTreeSet;

use cdb_client::write::BatchOutcome;
use cdb_model::operation::{BatchError, BulkBatch, OperationIndex};
use cdb_model::{Batch, Document, DocumentKey as _, Query, Stored};

use super::deadline::{bulk_in_time, in_time};
use super::documents::Documents;
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::Store;
use crate::stored::documents::{
    Durable, InboxRecord, NEVER, OutboxIntent, WorkerItem, WorkerItemKey,
};
use crate::stored::spill::ConsumedChunks;

/// Creates the activities of an intent, as many at a time as a batch holds. This process takes those that it has
/// created as its own: the turn waits for them since its commit.
pub(super) async fn deliver(
    services: &Services,
    intent: &OutboxIntent,
    activities: &[WorkerItem],
) -> Result<()> {
    let mut rest = activities;
    while !rest.is_empty() {
        let target = &*intent.target_instance_id;
        let part = (activities.len() - rest.len()) as u64;
        let mut batch = Batch::<Durable>::new(target);
        batch.add(InboxRecord::new(target, &intent.idempotency_key, part).create())?;
        let mut operations = Vec::new();
        for activity in rest {
            match batch.add(activity.create()) {
                Err(BatchError::Full | BatchError::TooLarge { .. }) if !operations.is_empty() => {
                    break;
                }
                created => operations.push(created?),
            }
        }
        let (created, later) = rest.split_at(operations.len());
        rest = later;
        match in_time(services.container().execute(&batch)).await {
            Ok(outcome) => note(services, created.iter().zip(operations), &outcome),
            // The batches are the same at every attempt, so an existing record, the first operation,
            // proves that the whole batch arrived.
            Err(Error::Request(error))
                if error.is_conflict() && error.operation_index() == Some(0) => {}
            Err(error) => return Err(error),
        }
    }
    services.activities().local().poll_soon();
    Ok(())
}

/// Puts activities into the local queue that a batch has created.
fn note<'a>(
    services: &Services,
    created: impl Iterator<Item = (&'a WorkerItem, OperationIndex)>,
    outcome: &BatchOutcome<Durable>,
) {
    if services.activities().last_request().is_none() {
        return;
    }
    for (activity, operation) in created {
        if let (Some(etag), Ok(id)) = (outcome.etag(operation), activity.key().to_id()) {
            let stored = Stored {
                id,
                etag: etag.clone(),
                document: activity.clone(),
                timestamp: services.store.now(),
            };
            services.activities().note_delivered(stored);
        }
    }
}

/// Returns the cancelled activities of an intent whose input is inline.
pub(super) fn small(intent: &OutboxIntent) -> impl Iterator<Item = WorkerItemKey> {
    let cancelled = intent.cancelled.iter();
    cancelled.flat_map(|of| keys(intent, of.execution_id, &of.small))
}

/// Deletes the cancelled activities of an intent whose input may be in chunks. Returns those that
/// did not exist.
pub(super) async fn delete_large(
    services: &Services,
    intent: &OutboxIntent,
) -> Result<BTreeSet<WorkerItemKey>> {
    let mut missing = BTreeSet::new();
    for of in &intent.cancelled {
        for key in keys(intent, of.execution_id, &of.large) {
            if !remove_large(services, &key).await? {
                missing.insert(key);
            }
        }
    }
    Ok(missing)
}

/// Returns the keys of activities, by the ids of the events that scheduled them.
fn keys(
    intent: &OutboxIntent,
    execution_id: u64,
    events: &[u64],
) -> impl Iterator<Item = WorkerItemKey> {
    let key = move |id: &u64| WorkerItemKey::new(&*intent.instance_id, execution_id, *id);
    events.iter().map(key)
}

/// Handles the missing activities of an intent. Fails if another intent is still to deliver one of
/// them.
pub(super) async fn confirm_missing(
    services: &Services,
    intent: &OutboxIntent,
    missing: &BTreeSet<WorkerItemKey>,
) -> Result<()> {
    let undelivered = Box::pin(are_undelivered(&services.store, intent, missing));
    if in_time(undelivered).await? {
        return Err(Error::Retryable(
            "a cancelled activity is not delivered yet".to_owned(),
        ));
    }
    // No intent delivers the activities any more, but one may have arrived since the first
    // deletion.
    let mut bulk = BulkBatch::<Durable>::new();
    for of in &intent.cancelled {
        let is_missing = |key: &WorkerItemKey| missing.contains(key);
        for key in keys(intent, of.execution_id, &of.small).filter(is_missing) {
            bulk.add(key.delete())?;
        }
        for key in keys(intent, of.execution_id, &of.large).filter(is_missing) {
            remove_large(services, &key).await?;
        }
    }
    let sent = async { Ok::<_, Error>(services.container().execute_bulk(&bulk).await) };
    for result in bulk_in_time(bulk.len(), sent).await? {
        match result {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether another intent of the instance delivers one of these activities. Dead letters
/// deliver nothing.
async fn are_undelivered(
    store: &Store,
    intent: &OutboxIntent,
    activities: &BTreeSet<WorkerItemKey>,
) -> Result<bool> {
    let container = store.container.latest_committed();
    let waiting = Query::<OutboxIntent>::in_partition(&*intent.instance_id)
        .filter(OutboxIntent::CREATED_AT.lt(NEVER));
    let waiting = container.query(waiting).row_by_row().all().await?;
    let waiting = store.corrupt_documents.readable(waiting);
    for other in waiting {
        let documents = Documents::of(&container, &other.document).await;
        let delivered = match documents {
            Ok(documents) => documents.activities,
            Err(error) if error.is_retryable() => return Err(error),
            // The intent cannot be delivered either.
            Err(_) => continue,
        };
        if delivered
            .iter()
            .any(|item| activities.contains(&item.key()))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes an activity together with the chunks of its input. Returns whether the activity existed.
async fn remove_large(services: &Services, key: &WorkerItemKey) -> Result<bool> {
    let found = in_time(services.container().read(key)).await?;
    let Some(item) = found.map(|stored| stored.document) else {
        return Ok(false);
    };
    let mut batch = Batch::<Durable>::new(&*item.instance_id);
    let consumed_chunks =
        ConsumedChunks::of(&item.instance_id, services.store.now(), [&item.work_item]);
    // Unconditional, because the worker may have renewed its lock.
    batch.add(key.delete())?;
    consumed_chunks.add_to(&mut batch)?;
    match in_time(services.container().execute(&batch)).await {
        Err(Error::Request(error)) if error.is_not_found() => {}
        sent => drop(sent?),
    }
    consumed_chunks.remove(&services.store);
    Ok(true)
}
