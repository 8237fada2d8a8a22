//! Delivers the messages of many intents, in one request per physical partition, each with a
//! deadline.
//!
//! The id of a message is derived from its intent, and its consumption leaves a trace under that
//! id. So a second delivery conflicts and changes nothing, and messages need neither a batch nor an
//! inbox record.

use std::collections::{BTreeMap, BTreeSet};

use cdb_client::partitions::PhysicalPartitionId;
use cdb_client::write::OperationResult;
use cdb_model::operation::{BulkBatch, OperationIndex};
use cdb_model::{Document, ETag};
use duroxide::providers::WorkItem;
use futures::future::join_all;

use super::deadline::{bulk_in_time, unanswered};
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::instances::NewMessage;
use crate::stored::documents::{Durable, OrchestratorItem, OutboxIntent, WorkerItemKey};

/// The messages and deletions of several intents, sent together.
#[derive(Default)]
pub(super) struct DeliveryBatch<'a> {
    /// The operations by physical partition.
    bulks: BTreeMap<PhysicalPartitionId, BulkBatch<Durable>>,
    messages: Vec<PackedMessage<'a>>,
    cancelled: Vec<PackedCancellation>,
    /// The outcome so far.
    pub(super) outcome: Outcome,
}

/// A message of intent number `intent`.
struct PackedMessage<'a> {
    intent: usize,
    range: PhysicalPartitionId,
    message: NewMessage<'a>,
}

/// The deletion of an activity that intent number `intent` has cancelled.
struct PackedCancellation {
    intent: usize,
    range: PhysicalPartitionId,
    activity: WorkerItemKey,
    operation: OperationIndex,
}

/// The outcome of a batch, by the numbers of its intents.
#[derive(Default)]
pub(super) struct Outcome {
    /// The reasons of failed intents.
    pub(super) failures: Vec<(usize, Error)>,
    /// Cancelled activities that did not exist.
    pub(super) missing: BTreeMap<usize, BTreeSet<WorkerItemKey>>,
}

impl Outcome {
    /// Notes that a cancelled activity of intent number `intent` does not exist.
    pub(super) fn note_missing(&mut self, intent: usize, activity: WorkerItemKey) {
        self.missing.entry(intent).or_default().insert(activity);
    }
}

impl<'a> DeliveryBatch<'a> {
    /// Adds a message of intent number `intent`.
    pub(super) async fn add(
        &mut self,
        services: &'a Services,
        intent: usize,
        document: OrchestratorItem,
        item: WorkItem,
    ) -> Result<()> {
        let document = OrchestratorItem {
            enqueued_at: services.store.enqueue_time(),
            ..document
        };
        let now = services.store.now();
        let document = services.queues.reserve_if_local(document, &item, now);
        let range = range_of(services, &document.instance_id).await?;
        let mut message = NewMessage::new(services, document, item);
        message.add_to_bulk(self.bulks.entry(range.clone()).or_default())?;
        self.messages.push(PackedMessage {
            intent,
            range,
            message,
        });
        Ok(())
    }

    /// Adds the deletion of an activity that intent number `intent` has cancelled.
    pub(super) async fn cancel(
        &mut self,
        services: &Services,
        intent: usize,
        activity: WorkerItemKey,
    ) -> Result<()> {
        let range = range_of(services, &activity.instance_id).await?;
        let bulk = self.bulks.entry(range.clone()).or_default();
        let operation = bulk.add(activity.delete())?;
        self.cancelled.push(PackedCancellation {
            intent,
            range,
            activity,
            operation,
        });
        Ok(())
    }

    /// Adds the deletion of a delivered intent.
    pub(super) async fn remove(&mut self, services: &Services, intent: &OutboxIntent) {
        // Without the physical partitions, the intent stays, and the reconciler finds it.
        let Ok(range) = range_of(services, &intent.instance_id).await else {
            return;
        };
        let bulk = self.bulks.entry(range).or_default();
        if let Err(error) = bulk.add(intent.key().delete()) {
            tracing::debug!(%error, "a delivered intent has no valid id");
        }
    }

    /// Sends the batch. Returns its outcome.
    pub(super) async fn send(self, services: &Services) -> Outcome {
        let mut outcome = self.outcome;
        let sent = self.bulks.into_iter().map(|(range, bulk)| async move {
            let sent = async { Ok::<_, Error>(services.container().execute_bulk(&bulk).await) };
            let results = bulk_in_time(bulk.len(), sent).await.unwrap_or_default();
            (range, results.into_iter().map(Some).collect())
        });
        let mut results = BulkResults(join_all(sent).await.into_iter().collect());
        for cancelled in self.cancelled {
            let intent = cancelled.intent;
            match results.take(&cancelled.range, cancelled.operation) {
                Some(Ok(_)) => {}
                Some(Err(error)) if error.is_not_found() => {
                    outcome.note_missing(intent, cancelled.activity);
                }
                Some(Err(error)) => outcome.failures.push((intent, error.into())),
                None => outcome.failures.push((intent, unanswered())),
            }
        }
        for packed in self.messages {
            if let Err(error) = results.finish(&packed.range, packed.message) {
                outcome.failures.push((packed.intent, error));
            }
        }
        // The reconciler finds intents that were not deleted; their second delivery changes
        // nothing.
        outcome
    }
}

type BulkResult = Result<OperationResult, cdb_client::Error>;

/// The results of the bulks, each taken once. A bulk without an answer has none.
struct BulkResults(BTreeMap<PhysicalPartitionId, Vec<Option<BulkResult>>>);

impl BulkResults {
    /// Takes the ETag that an operation wrote; `None` when the service did not answer.
    fn take(
        &mut self,
        range: &PhysicalPartitionId,
        operation: OperationIndex,
    ) -> Option<Result<Option<ETag>, cdb_client::Error>> {
        let results = self.0.get_mut(range)?;
        let result = results.get_mut(operation.get()).and_then(Option::take)?;
        Some(result.map(|result| result.etag().cloned()))
    }

    /// Finishes a message with the outcome of its operations.
    ///
    /// # Errors
    /// Fails when the message was not written.
    fn finish(&mut self, range: &PhysicalPartitionId, message: NewMessage<'_>) -> Result<()> {
        let operation = message.operation();
        let (etag, result) = match operation.and_then(|operation| self.take(range, operation)) {
            Some(Ok(etag)) => (etag, Ok(())),
            // An earlier delivery has written the message.
            Some(Err(error)) if error.is_conflict() => (None, Ok(())),
            Some(Err(error)) if !error.is_ambiguous() => return Err(error.into()),
            // The message may be written, and is then reserved for this process.
            Some(Err(error)) => (None, Err(error.into())),
            None => (None, Err(unanswered())),
        };
        message.written(etag);
        result
    }
}

/// Returns the physical partition of an instance.
async fn range_of(services: &Services, instance_id: &str) -> Result<PhysicalPartitionId> {
    let range = services
        .container()
        .physical_partition_of(&instance_id.into())
        .await?;
    range.ok_or_else(|| Error::Retryable(format!("no physical partition has {instance_id}")))
}
