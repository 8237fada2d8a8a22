//! Delivery of messages: those of many intents in one request per physical partition.
//!
//! A message has an id that is derived from its intent, and leaves a trace under that id when it is consumed. So a second
//! delivery conflicts and changes nothing, and messages need neither a batch nor a record of their own.

use std::collections::{BTreeMap, BTreeSet};

use cdb_client::OperationResult;
use cdb_model::{BulkBatch, OperationIndex};
use duroxide::providers::WorkItem;

use crate::documents::{Durable, OrchestratorItem, OutboxIntent, OutboxIntentKey, WorkerItemKey};
use crate::error::{Error, Result};
use crate::services::Services;
use crate::turn::{NewMessage, Prelock, Written};

/// Messages and removals on their way, and who they are from.
#[derive(Default)]
pub(super) struct Mailbag<'a> {
    bulk: BulkBatch<Durable>,
    /// Messages, and which of the intents each belongs to.
    messages: Vec<(usize, NewMessage<'a>)>,
    /// Cancelled activities, and which of the intents says so.
    cancelled: Vec<(usize, Activity, OperationIndex)>,
    /// What has become of it so far.
    sent: Sent,
}

/// An activity of the instance that an intent is from: its execution, and the event that scheduled it.
pub(super) type Activity = (u64, u64);

/// What has become of a bag, by the numbers of its intents.
#[derive(Default)]
pub(super) struct Sent {
    /// Messages that have not arrived, and why.
    pub(super) failures: Vec<(usize, Error)>,
    /// Cancelled activities that were not there.
    pub(super) missing: BTreeMap<usize, BTreeSet<Activity>>,
}

impl Sent {
    fn miss(&mut self, intent: usize, activity: Activity) {
        self.missing.entry(intent).or_default().insert(activity);
    }
}

impl<'a> Mailbag<'a> {
    /// Puts a message of intent number `intent` into the bag.
    pub(super) fn put(
        &mut self,
        services: &'a Services,
        intent: usize,
        (document, item): (OrchestratorItem, WorkItem),
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

    /// Puts the removal of an activity into the bag that intent number `intent` has cancelled.
    pub(super) fn cancel(&mut self, intent: usize, key: &WorkerItemKey) -> Result<()> {
        let operation = self.bulk.delete(key)?;
        let activity = (key.execution_id, key.activity_id);
        self.cancelled.push((intent, activity, operation));
        Ok(())
    }

    /// An activity that intent number `intent` has cancelled is not there.
    pub(super) fn miss(&mut self, intent: usize, activity: Activity) {
        self.sent.miss(intent, activity);
    }

    /// Takes a delivered intent out of its sender's partition, along with the rest.
    pub(super) fn remove(&mut self, intent: &OutboxIntent) {
        let key = OutboxIntentKey::new(&*intent.instance_id, &*intent.idempotency_key);
        if let Err(error) = self.bulk.delete(&key) {
            tracing::debug!(%error, "a delivered intent has no key");
        }
    }

    /// Sends everything.
    pub(super) async fn send(self, services: &Services) -> Sent {
        let mut sent = self.sent;
        if self.bulk.is_empty() {
            return sent;
        }
        let mut results: Vec<Option<Result<OperationResult, cdb_client::Error>>> = services
            .container()
            .execute_bulk(&self.bulk)
            .await
            .into_iter()
            .map(Some)
            .collect();
        let mut result_of = |operation: OperationIndex| {
            let result = results.get_mut(operation.get()).and_then(Option::take);
            result.map(|result| result.map(|result| result.etag().cloned()))
        };
        for (intent, activity, operation) in self.cancelled {
            match result_of(operation) {
                Some(Ok(_)) => {}
                Some(Err(error)) if error.is_not_found() => {
                    sent.miss(intent, activity);
                }
                Some(Err(error)) => sent.failures.push((intent, error.into())),
                None => sent.failures.push((intent, unanswered())),
            }
        }
        for (intent, message) in self.messages {
            let (operation, lock) = message.operations();
            let lock = match lock.and_then(&mut result_of) {
                Some(Ok(etag)) => Written::Done(etag),
                Some(Err(error)) if error.is_ambiguous() => Written::Unknown,
                Some(Err(_)) | None => Written::NotDone,
            };
            let written = match operation.and_then(&mut result_of) {
                Some(Ok(etag)) => Written::Done(etag),
                // An earlier delivery has written it.
                Some(Err(error)) if error.is_conflict() => Written::Done(None),
                Some(Err(error)) => {
                    sent.failures.push((intent, error.into()));
                    Written::NotDone
                }
                None => {
                    sent.failures.push((intent, unanswered()));
                    Written::NotDone
                }
            };
            message.finish(written, &lock);
        }
        // What was not removed is found by the reconciler, and its second delivery changes nothing.
        sent
    }
}

fn unanswered() -> Error {
    Error::Retryable("the service did not answer".to_owned())
}
