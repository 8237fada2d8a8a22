//! Delivery of messages: those of many intents in one request per physical partition.
//!
//! A message has an id that is derived from its intent, and leaves a trace under that id when it is consumed. So a second
//! delivery conflicts and changes nothing, and messages need neither a batch nor a record of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cdb_client::OperationResult;
use cdb_model::{BulkBatch, ETag, OperationIndex};
use duroxide::providers::WorkItem;

use crate::documents::{Durable, OrchestratorItem, OutboxIntent, OutboxIntentKey, WorkerItemKey};
use crate::error::{Error, Result};
use crate::instances::Message;
use crate::services::Services;
use crate::turn::Prelock;

/// Messages and removals on their way, and who they are from.
#[derive(Default)]
pub(super) struct Mailbag<'a> {
    bulk: BulkBatch<Durable>,
    letters: Vec<Letter<'a>>,
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

/// A message in the bag.
struct Letter<'a> {
    /// Which of the intents it belongs to.
    intent: usize,
    document: OrchestratorItem,
    item: WorkItem,
    operation: OperationIndex,
    /// The lock of its target, taken along with it.
    turn: Option<Prelock<'a>>,
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
        let operation = self.bulk.create(&document)?;
        let mut turn = (document.due_at() <= now)
            .then(|| Prelock::of_target(services, &document.instance_id, &item))
            .flatten();
        if let Some(lock) = &mut turn
            && lock.add_to_bulk(&mut self.bulk, &document).is_err()
        {
            turn = None;
        }
        self.letters.push(Letter {
            intent,
            document,
            item,
            operation,
            turn,
        });
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
        for letter in self.letters {
            let message = result_of(letter.operation);
            let lock = letter.turn.as_ref().and_then(Prelock::operation);
            let lock = lock.and_then(&mut result_of);
            let intent = letter.intent;
            if let Some(failure) = letter.arrived(services, message, lock) {
                sent.failures.push((intent, failure));
            }
        }
        // What was not removed is found by the reconciler, and its second delivery changes nothing.
        sent
    }
}

fn unanswered() -> Error {
    Error::Retryable("the service did not answer".to_owned())
}

/// What became of an operation: the version it left.
type Outcome = Option<Result<Option<ETag>, cdb_client::Error>>;

impl Letter<'_> {
    /// Wakes who waits for the message. Returns why it was not delivered, if it was not.
    fn arrived(self, services: &Services, message: Outcome, lock: Outcome) -> Option<Error> {
        let (instance_id, execution_id) = (
            self.document.instance_id.clone(),
            self.document.execution_id,
        );
        let after = self.document.due_at().since(services.store.now());
        let (etag, failure) = match message {
            Some(Ok(etag)) => (etag, None),
            // Delivered before.
            Some(Err(error)) if error.is_conflict() => (None, None),
            Some(Err(error)) => (None, Some(error.into())),
            None => (None, Some(unanswered())),
        };
        let message = etag.and_then(|etag| Message::written(self.document, self.item, etag));
        match (self.turn, lock, message) {
            (Some(turn), Some(Ok(Some(etag))), Some(message)) => turn.won(&etag, message),
            // Locked for nothing, or perhaps.
            (Some(turn), Some(Ok(_)), None) => turn.outcome_unknown(),
            (Some(turn), Some(Err(error)), message) if error.is_ambiguous() => {
                turn.outcome_unknown();
                note(services, message, &instance_id, execution_id, after);
            }
            (turn, _, message) => {
                if let Some(turn) = turn {
                    turn.give_up();
                }
                if failure.is_none() {
                    note(services, message, &instance_id, execution_id, after);
                }
            }
        }
        failure
    }
}

fn note(
    services: &Services,
    message: Option<Message>,
    instance_id: &str,
    execution_id: Option<u64>,
    after: Duration,
) {
    match message {
        Some(message) => services.instances().expect(message),
        None => services
            .instances()
            .suspect(instance_id, execution_id, after),
    }
}
