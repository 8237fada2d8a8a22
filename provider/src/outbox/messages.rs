//! Delivers the messages of many intents, in one request per physical partition.
//!
//! The id of a message is derived from its intent, and its consumption leaves a trace under that
//! id. So a second delivery conflicts and changes nothing, and messages need neither a batch nor an
//! inbox record.

use std::collections::{BTreeMap, BTreeSet};

use cdb_client::OperationResult;
use cdb_model::{BulkBatch, Document, ETag, OperationIndex};
use duroxide::providers::WorkItem;

use crate::documents::{Durable, OrchestratorItem, OutboxIntent, WorkerItemKey};
use crate::error::{Error, Result};
use crate::services::Services;
use crate::turn::{NewMessage, Prelock, Written};

/// The messages and deletions of several intents, sent together.
#[derive(Default)]
pub(super) struct DeliveryBatch<'a> {
    bulk: BulkBatch<Durable>,
    /// The messages, each with the number of its intent.
    messages: Vec<(usize, NewMessage<'a>)>,
    /// The cancelled activities, each with the number of its intent.
    cancelled: Vec<(usize, WorkerItemKey, OperationIndex)>,
    /// The outcome so far.
    pub(super) outcome: Outcome,
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
    pub(super) fn add(
        &mut self,
        services: &'a Services,
        intent: usize,
        document: OrchestratorItem,
        item: WorkItem,
    ) -> Result<()> {
        let now = services.store.now();
        let document = services.queues.reserve_if_local(document, &item, now);
        let lock = (document.due_at() <= now)
            .then(|| Prelock::of_target(services, &document.instance_id, &item))
            .flatten();
        let mut message = NewMessage::new(services, document, item, lock);
        message.add_to_bulk(&mut self.bulk)?;
        self.messages.push((intent, message));
        Ok(())
    }

    /// Adds the deletion of an activity that intent number `intent` has cancelled.
    pub(super) fn cancel(&mut self, intent: usize, activity: WorkerItemKey) -> Result<()> {
        let operation = self.bulk.delete(&activity)?;
        self.cancelled.push((intent, activity, operation));
        Ok(())
    }

    /// Adds the deletion of a delivered intent.
    pub(super) fn remove(&mut self, intent: &OutboxIntent) {
        if let Err(error) = self.bulk.delete(&intent.key()) {
            tracing::debug!(%error, "a delivered intent has no valid id");
        }
    }

    /// Sends the batch. Returns its outcome.
    pub(super) async fn send(self, services: &Services) -> Outcome {
        let mut outcome = self.outcome;
        if self.bulk.is_empty() {
            return outcome;
        }
        let results = services.container().execute_bulk(&self.bulk).await;
        let mut results = BulkResults(results.into_iter().map(Some).collect());
        for (intent, activity, operation) in self.cancelled {
            match results.take(operation) {
                Some(Ok(_)) => {}
                Some(Err(error)) if error.is_not_found() => {
                    outcome.note_missing(intent, activity);
                }
                Some(Err(error)) => outcome.failures.push((intent, error.into())),
                None => outcome.failures.push((intent, unanswered())),
            }
        }
        for (intent, message) in self.messages {
            if let Err(error) = results.finish(message) {
                outcome.failures.push((intent, error));
            }
        }
        // The reconciler finds intents that were not deleted; their second delivery changes
        // nothing.
        outcome
    }
}

/// The results of a bulk, each taken once.
struct BulkResults(Vec<Option<Result<OperationResult, cdb_client::Error>>>);

impl BulkResults {
    /// Takes the ETag that an operation wrote; `None` when the service did not answer.
    fn take(
        &mut self,
        operation: OperationIndex,
    ) -> Option<Result<Option<ETag>, cdb_client::Error>> {
        let result = self.0.get_mut(operation.get()).and_then(Option::take)?;
        Some(result.map(|result| result.etag().cloned()))
    }

    /// Finishes a message with the outcome of its operations.
    ///
    /// # Errors
    /// Fails when the message was not written.
    fn finish(&mut self, message: NewMessage<'_>) -> Result<()> {
        let (operation, lock) = message.operations();
        let lock = match lock.and_then(|lock| self.take(lock)) {
            Some(Ok(etag)) => Written::Done(etag),
            Some(Err(error)) if error.is_ambiguous() => Written::Unknown,
            Some(Err(_)) | None => Written::NotDone,
        };
        let (written, result) = match operation.and_then(|operation| self.take(operation)) {
            Some(Ok(etag)) => (Written::Done(etag), Ok(())),
            // An earlier delivery has written the message.
            Some(Err(error)) if error.is_conflict() => (Written::Done(None), Ok(())),
            Some(Err(error)) => (Written::NotDone, Err(error.into())),
            None => (Written::NotDone, Err(unanswered())),
        };
        message.finish(written, &lock);
        result
    }
}

fn unanswered() -> Error {
    Error::Retryable("the service did not answer".to_owned())
}
