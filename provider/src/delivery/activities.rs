//! Delivers activities that did not fit into the commit that schedules them.
//!
//! An activity's item is deleted when the activity ends, so its id does not prove an earlier
//! delivery. Each batch creates an inbox record: a second delivery conflicts with the record and
//! changes nothing.

use cdb_model::{Batch, BatchError};

use super::deadline::in_time;
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::{Durable, InboxRecord, OutboxIntent, WorkerItem};

/// Creates the activities of an intent, as many at a time as a batch holds.
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
        batch.create(&InboxRecord::new(target, &intent.idempotency_key, part))?;
        let mut count = 0;
        for activity in rest {
            match batch.create(activity) {
                Err(BatchError::Full | BatchError::TooLarge { .. }) if count > 0 => break,
                created => created?,
            };
            count += 1;
        }
        match in_time(services.container().execute(&batch)).await {
            // The batches are the same at every attempt, so an existing record, the first operation,
            // proves that the whole batch arrived.
            Err(Error::Request(error))
                if error.is_conflict() && error.operation_index() == Some(0) => {}
            sent => drop(sent?),
        }
        rest = &rest[count..];
    }
    services.activities().local().poll_soon();
    Ok(())
}
