//! Cancelled activities: delivered means that they are gone.
//!
//! One that runs finds its item gone when it renews its lock or ends. One that is missing has ended, or was removed by an
//! earlier delivery; or it did not fit into the commit that schedules it, and the intent that brings it is still under way.

use std::collections::BTreeSet;

use cdb_model::{Batch, BulkBatch, Query};

use super::documents::Documents;
use super::messages::{Activity, Mailbag};
use crate::documents::{Durable, NEVER, OutboxIntent, WorkerItemKey};
use crate::error::{Error, Result};
use crate::services::Services;
use crate::spill::ConsumedChunks;
use crate::store::Store;

/// Removes the cancelled activities of intent number `number`: the small ones with the bag, the others at once.
pub(super) async fn deliver<'a>(
    services: &'a Services,
    bag: &mut Mailbag<'a>,
    (number, intent): (usize, &OutboxIntent),
) -> Result<()> {
    let instance_id = &*intent.instance_id;
    for of in &intent.cancelled {
        for id in &of.small {
            let key = WorkerItemKey::new(instance_id, of.execution_id, *id);
            bag.cancel(number, &key)?;
        }
        for id in &of.large {
            let key = WorkerItemKey::new(instance_id, of.execution_id, *id);
            if !remove_large(services, &key).await? {
                bag.miss(number, (of.execution_id, *id));
            }
        }
    }
    Ok(())
}

/// Looks after the cancelled activities of an intent that were not there: if one of them is still to come, the intent waits
/// for that.
pub(super) async fn see_off(
    services: &Services,
    intent: &OutboxIntent,
    missing: &BTreeSet<Activity>,
) -> Result<()> {
    if are_coming(&services.store, intent, missing).await? {
        return Err(Error::Retryable(
            "an activity that it cancels is still to be delivered itself".to_owned(),
        ));
    }
    // Nothing brings them any more; but they may have come since they were looked for.
    let mut bulk = BulkBatch::<Durable>::new();
    for of in &intent.cancelled {
        let is_missing = |id: &&u64| missing.contains(&(of.execution_id, **id));
        let key = |id: &u64| WorkerItemKey::new(&*intent.instance_id, of.execution_id, *id);
        for id in of.small.iter().filter(is_missing) {
            bulk.delete(&key(id))?;
        }
        for id in of.large.iter().filter(is_missing) {
            remove_large(services, &key(id)).await?;
        }
    }
    for result in services.container().execute_bulk(&bulk).await {
        match result {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Whether another intent of the instance brings one of these activities. Those that were given up bring nothing.
async fn are_coming(
    store: &Store,
    intent: &OutboxIntent,
    activities: &BTreeSet<Activity>,
) -> Result<bool> {
    let container = store.container.latest_committed();
    let waiting = Query::<OutboxIntent>::in_partition(&*intent.instance_id)
        .filter(OutboxIntent::CREATED_AT.lt(NEVER));
    let waiting = container.query(waiting).row_by_row().all().await?;
    let waiting = store.corrupt_documents.readable(waiting);
    for other in waiting {
        let documents = Documents::of(&container, || store.now(), &other.document).await;
        let brought = match documents {
            Ok(documents) => documents.activities,
            Err(error) if error.is_retryable() => return Err(error),
            // It cannot be delivered either.
            Err(_) => continue,
        };
        let is_meant = |activity: Activity| activities.contains(&activity);
        if brought
            .iter()
            .any(|item| is_meant((item.execution_id, item.activity_id)))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes an activity together with the chunks of its input. Whether it was there.
async fn remove_large(services: &Services, key: &WorkerItemKey) -> Result<bool> {
    let found = services.container().read(key).await?;
    let Some(item) = found.map(|stored| stored.document) else {
        return Ok(false);
    };
    let mut batch = Batch::<Durable>::new(&*item.instance_id);
    let consumed_chunks =
        ConsumedChunks::of(&item.instance_id, services.store.now(), [&item.work_item]);
    // Whoever runs it may have renewed its lock meanwhile, which makes no difference.
    batch.delete(key).and_then(|_| match &consumed_chunks {
        Some(consumed_chunks) => consumed_chunks.add_to(&mut batch),
        None => Ok(()),
    })?;
    match services.container().execute(&batch).await {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    if let Some(consumed_chunks) = consumed_chunks {
        consumed_chunks.remove(services);
    }
    Ok(true)
}
