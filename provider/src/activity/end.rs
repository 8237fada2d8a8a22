//! Ends an activity: one batch deletes its item and creates its completion.

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_client::write::BatchOutcome;
use cdb_coordination::lease::{Fenced, FencedWrite, Found, execute_fenced};
use cdb_model::operation::{BatchError, OperationIndex};
use cdb_model::{Batch, Document, ETag, Timestamp};
use duroxide::providers::WorkItem;

use super::LOST;
use super::locked::{require_lock, wait_to_retry};
use crate::delivery;
use crate::error::{Error, Result};
use crate::queue::activities::{Activities, EffectsState, NextActivity, WorkLock};
use crate::queue::instances::NewMessage;
use crate::queue::local_queue::Shared;
use crate::queue::{Services, ledger};
use crate::stored::documents::{
    Chunked, Durable, IntentItem, IntentQueue, OrchestratorItem, OutboxIntent, Text, WorkerItem,
    target_instance,
};
use crate::stored::spill::{ConsumedChunks, Spilling};

/// The most sends of the batch while its outcome is unknown.
const MAX_SENDS: u32 = 4;

/// The bytes of a batch up to which a result stays inline beside effects. The rest of a batch is for
/// its other operations.
const INLINE_BYTES: usize = 1_800_000;

/// What the batch has committed.
pub(crate) struct Committed {
    /// The operations of the effects, and the versions that they left.
    outcome: Option<BatchOutcome<Durable>>,
    first: usize,
    /// The version of the message for the same partition; `None` without one, or if the answer was lost.
    pub(crate) completion: Option<ETag>,
}

impl Committed {
    /// Returns the version that an operation of the effects left; `None` if the answer was lost.
    pub(crate) fn etag(&self, operation: OperationIndex) -> Option<ETag> {
        let index = OperationIndex::from(self.first + operation.get());
        self.outcome.as_ref()?.etag(index).cloned()
    }
}

/// The result of the batch that ends an activity.
pub(crate) enum Ended {
    Committed(Committed),
    /// An operation of the effects was refused. The activity has not ended.
    Refused {
        /// The index of the operation among the effects.
        operation: usize,
        error: cdb_client::Error,
    },
}

/// How an activity ends.
#[derive(Debug, Default)]
pub(crate) struct Ending<'a> {
    /// What its instance receives; `None` if it was cancelled.
    pub(crate) completion: Option<WorkItem>,
    /// How long the completion is delayed.
    pub(crate) delay: Duration,
    /// What the same batch commits.
    pub(crate) effects: Option<&'a Batch<Durable>>,
}

/// Ends an activity. Its effects are committed by the same batch. After a batch with effects, the
/// runtime still acknowledges the activity, which then writes nothing.
pub(crate) async fn end(
    services: &Services,
    shared: &Shared<Activities>,
    mut ending: Ending<'_>,
) -> Result<Ended> {
    let effects = ending.effects;
    services
        .store
        .payloads
        .encode_messages(ending.completion.as_mut_slice())?;
    let content = Content::write(services, shared, ending).await?;
    let mut lock = shared.lock().await;
    require_lock(services, &mut lock)?;
    let instance_id = lock.item.document.instance_id.clone();
    let mut ack = Ack::new(services, &mut lock, content, effects);
    let charge = ack.charge;
    let answer = services.ledger.charge(&instance_id, send(&mut ack)).await;
    if !matches!(answer, Ok(Sent::Committed(_))) {
        services.ledger.note(&instance_id, charge);
    }
    let outcome = match answer {
        Ok(Sent::Committed(outcome)) => outcome,
        Ok(Sent::EffectsRefused { operation, error }) => {
            ack.release();
            return Ok(Ended::Refused { operation, error });
        }
        Ok(Sent::Unknown(error)) => {
            ack.outcome_unknown();
            if effects.is_none() && !error.is_retryable() {
                services.activities().finish(&mut lock);
            }
            return Err(error);
        }
        Err(error) => {
            ack.release();
            let is_final = effects.is_none() && !error.is_retryable();
            if is_final || matches!(error, Error::LockLost(_)) {
                services.activities().finish(&mut lock);
            }
            return Err(error);
        }
    };
    if effects.is_some() {
        ack.lock.effects = EffectsState::Committed;
    } else {
        services.activities().finish(ack.lock);
    }
    let first = ack.first_effect;
    let completion = ack.completion(outcome.as_ref());
    let intent = ack.finish(outcome.as_ref());
    delivery::deliver_all(services, Vec::from_iter(intent), lock.request.caller).await;
    services.queues.sessions.touch(&lock.item.document).await;
    Ok(Ended::Committed(Committed {
        outcome,
        first,
        completion,
    }))
}

/// The documents that the end of an activity writes.
struct Content {
    /// The completion for the instance that scheduled the activity, in the same partition.
    message: Option<(OrchestratorItem, WorkItem)>,
    /// The completion for another instance.
    intent: Option<OutboxIntent>,
    /// The chunks of the result.
    spilling: Spilling,
    /// The chunks of the input.
    consumed_chunks: ConsumedChunks,
}

impl Content {
    /// Writes the chunks of a large result. The lock can be renewed during the writes.
    async fn write(
        services: &Services,
        shared: &Shared<Activities>,
        ending: Ending<'_>,
    ) -> Result<Self> {
        let effects = ending.effects;
        let mut lock = shared.lock().await;
        let now = require_lock(services, &mut lock)?;
        let mut content = Self::new(services, &lock, ending, now)?;
        drop(lock);
        let message = content.message.iter_mut();
        let message = message.map(|(document, _)| &mut document.work_item);
        let items = content
            .intent
            .iter_mut()
            .flat_map(|intent| &mut intent.items);
        for text in message.chain(items.map(|item| &mut item.work_item)) {
            // A text in a document at most doubles, because it is JSON already.
            let beside = |effects: &Batch<Durable>| {
                effects.size_bytes() + 2 * text.header().len() > INLINE_BYTES
            };
            if !Chunked::fits(text.header()) || effects.is_some_and(beside) {
                content.spilling.spill_message(text)?;
            }
        }
        loop {
            match content.spilling.write(&services.store).await {
                Err(Error::Request(error))
                    if wait_to_retry(
                        &services.store,
                        &*shared.lock().await,
                        error.is_transient(),
                    )
                    .await => {}
                written => return written.map(|()| content),
            }
        }
    }

    fn new(
        services: &Services,
        lock: &WorkLock,
        ending: Ending<'_>,
        now: Timestamp,
    ) -> Result<Self, serde_json::Error> {
        let item = &lock.item.document;
        let mut content = Self {
            message: None,
            intent: None,
            spilling: Spilling::new(&item.instance_id, now),
            consumed_chunks: ConsumedChunks::of(&item.instance_id, now, [&item.work_item]),
        };
        let Some(completion) = ending.completion else {
            return Ok(content);
        };
        let target = target_instance(&completion);
        if target == item.instance_id {
            let mut message = message(item, &completion, now + ending.delay, now)?;
            if lock.request.caller.is_runtime() && services.instances().is_local(target) {
                message = message.reserved(now);
            }
            content.message = Some((message, completion));
        } else {
            let mut intent = OutboxIntent::new(&item.instance_id, lock.token.clone(), target, now);
            intent.items.push(IntentItem {
                queue: IntentQueue::Orchestrator,
                work_item: Text::Inline(serde_json::to_string(&completion)?),
                visible_at: now,
            });
            content.intent = Some(intent);
        }
        Ok(content)
    }
}

/// Returns the message of a completion for the instance that scheduled the activity.
pub(super) fn message(
    item: &WorkerItem,
    completion: &WorkItem,
    due: Timestamp,
    now: Timestamp,
) -> Result<OrchestratorItem, serde_json::Error> {
    let cause = OrchestratorItem::completion_cause(item.execution_id, item.activity_id);
    OrchestratorItem::new(completion, cause, due, now)
}

/// The fenced write that ends an activity: its batch, with the prelock of the next one.
struct Ack<'a> {
    services: &'a Services,
    lock: &'a mut WorkLock,
    content: Content,
    effects: Option<&'a Batch<Durable>>,
    /// The index of the first operation of the effects.
    first_effect: usize,
    /// The completion.
    message: Option<NewMessage<'a>>,
    /// The next activity of the worker.
    next: Option<NextActivity<'a>>,
    /// The request units that the completion carries.
    charge: f64,
    batch: Batch<Durable>,
    is_sent: bool,
}

impl<'a> Ack<'a> {
    fn new(
        services: &'a Services,
        lock: &'a mut WorkLock,
        mut content: Content,
        effects: Option<&'a Batch<Durable>>,
    ) -> Self {
        let mut charge = 0.0;
        let message = content.message.take().map(|(mut document, item)| {
            charge = services.ledger.take(&document.instance_id);
            document.request_units = ledger::add(None, charge);
            NewMessage::new(services, document, item)
        });
        Self {
            content,
            effects,
            first_effect: 0,
            message,
            next: NextActivity::of(services, lock, services.store.now()),
            charge,
            batch: Batch::new(""),
            is_sent: false,
            services,
            lock,
        }
    }

    fn batch(&mut self) -> Result<Batch<Durable>, BatchError> {
        let item = &self.lock.item.document;
        if item.paused.is_some() {
            // A reserved completion would wake a turn that is not locked.
            self.message.iter_mut().for_each(NewMessage::share);
            self.services.instances().note_pause(&item.instance_id);
        }
        let mut batch = Batch::new(&*item.instance_id);
        // First, so that a lost lock fails this operation with 404 or 412.
        batch.add(self.lock.item.delete())?;
        self.content.spilling.confirm(&mut batch)?;
        self.content.consumed_chunks.add_to(&mut batch)?;
        if let Some(message) = &mut self.message {
            message.add_to(&mut batch)?;
        }
        if let Some(intent) = &self.content.intent {
            batch.add(intent.create())?;
        }
        self.first_effect = batch.len();
        if let Some(effects) = self.effects {
            batch.append(effects)?;
        }
        if let Some(next) = &mut self.next {
            next.add_to(&mut batch)?;
        }
        Ok(batch)
    }

    /// Returns the index of the operation that made the batch fail among those of the effects.
    fn failed_effect(&self, error: &cdb_client::Error) -> Option<usize> {
        let operation = error.operation_index()?.checked_sub(self.first_effect)?;
        (operation < self.effects?.len()).then_some(operation)
    }

    /// Drops the prelock that made the batch fail, and returns whether it did. The batch is
    /// then sent without it.
    fn drops_failed_lock(&mut self, error: &cdb_client::Error) -> bool {
        let next = self.next.take_if(|next| next.failed(error));
        next.map(NextActivity::release).is_some()
    }

    /// Releases chunks and claims after a failed batch.
    fn release(self) {
        self.content.spilling.release(&self.services.store);
        if let Some(next) = self.next {
            next.release();
        }
    }

    /// Releases chunks and prelocks after a batch that may have taken place.
    fn outcome_unknown(self) {
        self.content.spilling.release(&self.services.store);
        if let Some(message) = self.message {
            message.written(None);
        }
        if let Some(next) = self.next {
            next.committed(None);
        }
    }

    /// Returns the version of the completion in the same partition.
    fn completion(&self, outcome: Option<&BatchOutcome<Durable>>) -> Option<ETag> {
        let operation = self.message.as_ref()?.operation()?;
        outcome?.etag(operation).cloned()
    }

    /// Hands on the prelocks after a committed batch, and returns the intent to deliver, if any.
    /// `outcome` is `None` when the answer was lost.
    fn finish(self, outcome: Option<&BatchOutcome<Durable>>) -> Option<OutboxIntent> {
        self.content.consumed_chunks.remove(&self.services.store);
        if let Some(next) = self.next {
            next.committed(outcome);
        }
        if let Some(message) = self.message {
            message.committed(outcome);
        }
        self.content.intent
    }
}

/// The outcome of the batch.
enum Sent {
    /// The answer; `None` when it was lost.
    Committed(Option<BatchOutcome<Durable>>),
    EffectsRefused {
        operation: usize,
        error: cdb_client::Error,
    },
    /// The batch may have taken place, or may still take place.
    Unknown(Error),
}

/// Sends the batch until it is known to be committed, or until the lock is lost.
async fn send(ack: &mut Ack<'_>) -> Result<Sent> {
    loop {
        let fenced = match execute_fenced(ack).await {
            Err(error) if ack.is_sent => return Ok(Sent::Unknown(error)),
            fenced => fenced?,
        };
        match fenced {
            Fenced::Committed(outcome) => return Ok(Sent::Committed(outcome)),
            Fenced::CommittedBefore | Fenced::Lost => return Err(Error::LockLost(LOST)),
            Fenced::Unknown(_) => {
                let reason = "the service did not answer".to_owned();
                return Ok(Sent::Unknown(Error::Retryable(reason)));
            }
            Fenced::Refused(error) if ack.drops_failed_lock(&error) => {}
            Fenced::Refused(error)
                if wait_to_retry(&ack.services.store, ack.lock, error.is_transient()).await => {}
            Fenced::Refused(error) if ack.failed_effect(&error).is_some() => {
                let operation = ack.failed_effect(&error).unwrap_or_default();
                return Ok(Sent::EffectsRefused { operation, error });
            }
            Fenced::Refused(error) if error.is_not_found() || error.is_precondition_failed() => {
                return Err(Error::LockLost(LOST));
            }
            Fenced::Refused(error) => return Err(error.into()),
        }
    }
}

impl FencedWrite for Ack<'_> {
    type Container = Durable;
    type Answer = BatchOutcome<Durable>;
    type Error = Error;

    fn container(&self) -> &ContainerClient<Durable> {
        self.services.container()
    }

    async fn prepare(&mut self, sends: u32) -> Result<Option<Duration>> {
        self.batch = self.batch()?;
        self.is_sent = sends < MAX_SENDS;
        // The client bounds each request, and the number of sends all of them: while the lock is
        // renewed, the result of the activity is worth more than one deadline. A send that arrives
        // after the lock has expired is refused, which is an answer.
        Ok((sends < MAX_SENDS).then_some(self.services.container().deadline() * 2))
    }

    async fn send(&self) -> Result<BatchOutcome<Durable>, cdb_client::Error> {
        self.services.container().execute(&self.batch).await
    }

    /// Reads the item, with retries for as long as the lock lasts. A missing item was deleted by
    /// this batch. If the activity was cancelled instead, or ended by the runtime that took over
    /// the lock, this completion has no effect.
    async fn find_out(&mut self, latest: &ContainerClient<Durable>) -> Result<Found> {
        let key = self.lock.item.document.key();
        loop {
            let stored = match latest.read(&key).await {
                Err(error)
                    if wait_to_retry(&self.services.store, self.lock, error.is_transient())
                        .await =>
                {
                    continue;
                }
                found => found?,
            };
            return Ok(match stored {
                None => Found::Done,
                Some(stored) if stored.document.lock_token.as_deref() != Some(&self.lock.token) => {
                    Found::Lost
                }
                Some(stored) if stored.etag == self.lock.item.etag => Found::Unchanged,
                Some(stored) => {
                    // An operator has paused or resumed the instance.
                    self.lock.item.document.paused = stored.document.paused;
                    self.lock.item.etag = stored.etag;
                    Found::NewVersion
                }
            });
        }
    }
}
