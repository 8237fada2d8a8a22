//! The end of an activity: its item goes and its completion comes, in one batch.

use std::time::Duration;

use cdb_client::BatchOutcome;
use cdb_model::{Batch, BatchError, OperationIndex, Stored, Timestamp};
use duroxide::providers::WorkItem;

use super::LOST;
use super::abandon::abandon;
use super::ask::ActivityKey;
use super::lock::read;
use super::prelock::Following;
use super::renew::may_wait;
use super::running::{SharedLock, WorkLock};
use crate::documents::{
    Chunked, Durable, IntentItem, IntentQueue, OrchestratorItem, OutboxIntent, Text, WorkerItem,
    target_instance,
};
use crate::error::{Error, Result};
use crate::outbox;
use crate::services::Services;
use crate::spill::{ConsumedChunks, Spilling};
use crate::store::Store;
use crate::turn::{Prelock, enqueued};

/// How often the batch is sent again while the lock is still ours.
const MAX_SENDS: u32 = 4;

/// What goes where with the end of an activity.
enum Completion {
    None,
    /// To the instance that scheduled it: the same partition.
    Own(Box<OrchestratorItem>),
    /// To another instance, by the outbox.
    Other(Box<OutboxIntent>),
}

/// Implements `Provider::ack_work_item`.
pub(crate) async fn ack(
    services: &Services,
    token: &str,
    completion: Option<WorkItem>,
) -> Result<()> {
    let completion = completion.map(|completion| within_limit(&services.store, completion));
    let shared = services.activities().lock(token)?;
    if completion.is_none() && shared.lock().await.unanswered {
        // Not cancelled: duroxide drops an activity after any failed renewal.
        return abandon(services, token, None, true).await;
    }
    let cargo = Cargo::load(services, &shared, completion.as_ref()).await?;
    let mut lock = shared.lock().await;
    let now = held(services, &mut lock)?;
    let result = send(services, &mut lock, &cargo).await;
    if result.is_err() {
        cargo.spilling.give_up(services);
    }
    match &result {
        Err(error) if error.is_retryable() => return result.map(|_| ()),
        _ => services.activities().finish(&mut lock),
    }
    let sent = result?;
    if let Some(consumed_chunks) = cargo.consumed_chunks {
        consumed_chunks.remove(services);
    }
    let touched = services
        .queues
        .sessions
        .touch(services.container(), &lock.item.document, now);
    match (cargo.completion, completion) {
        (Completion::Own(document), Some(item)) => sent.hand_on(services, Some((*document, item))),
        (Completion::Other(intent), _) => {
            sent.hand_on(services, None);
            if lock.ask.is_some() {
                services.spawn(|services| async move {
                    outbox::deliver_all(&services, vec![*intent]).await;
                });
            } else {
                outbox::deliver_all(services, vec![*intent]).await;
            }
        }
        _ => sent.hand_on(services, None),
    }
    touched.await;
    Ok(())
}

/// What the end of an activity leaves.
struct Cargo {
    completion: Completion,
    /// The chunks of its result.
    spilling: Spilling,
    /// The chunks of its input.
    consumed_chunks: Option<ConsumedChunks>,
}

impl Cargo {
    /// Writes what does not fit into a document. The lock can be renewed meanwhile.
    async fn load(
        services: &Services,
        shared: &SharedLock,
        completion: Option<&WorkItem>,
    ) -> Result<Self> {
        let mut lock = shared.lock().await;
        let now = held(services, &mut lock)?;
        let mut sorted = sort(&lock, completion, now)?;
        if let Completion::Own(message) = &mut sorted
            && lock.ask.is_some()
            && services.instances().is_home_of(&message.instance_id)
        {
            **message = OrchestratorItem::clone(message).reserved(now);
        }
        let item = &lock.item.document;
        let consumed_chunks = ConsumedChunks::of(&item.instance_id, now, [&item.work_item]);
        let mut spilling = Spilling::new(&item.instance_id, now);
        drop(lock);
        sorted.spill(&mut spilling)?;
        spilling.write(&services.store).await?;
        Ok(Self {
            completion: sorted,
            spilling,
            consumed_chunks,
        })
    }
}

/// The time, if the lock holds.
fn held(services: &Services, lock: &mut WorkLock) -> Result<Timestamp> {
    let now = services.store.now();
    if lock.holds(now) {
        return Ok(now);
    }
    services.activities().finish(lock);
    Err(Error::LockLost("it has expired"))
}

impl Completion {
    /// Moves a large result out of its document.
    fn spill(&mut self, spilling: &mut Spilling) -> Result<(), serde_json::Error> {
        let text = match self {
            Self::None => return Ok(()),
            Self::Own(message) => Some(&mut message.work_item),
            Self::Other(intent) => intent.items.first_mut().map(|item| &mut item.work_item),
        };
        match text {
            Some(text) if !Chunked::fits(text.header()) => spilling.relieve_message(text),
            _ => Ok(()),
        }
    }
}

/// The end of an activity, or that its result is too large. Refused, it would run again and again.
fn within_limit(store: &Store, completion: WorkItem) -> WorkItem {
    let WorkItem::ActivityCompleted {
        instance,
        execution_id,
        id,
        result,
    } = completion
    else {
        return completion;
    };
    let what = "the result of an activity";
    match store.limits.check_value(what, result.len()) {
        Ok(()) => WorkItem::ActivityCompleted {
            instance,
            execution_id,
            id,
            result,
        },
        Err(error) => WorkItem::ActivityFailed {
            instance,
            execution_id,
            id,
            details: error
                .in_operation("ack_work_item")
                .to_infrastructure_error(),
        },
    }
}

fn sort(lock: &WorkLock, completion: Option<&WorkItem>, now: Timestamp) -> Result<Completion> {
    let Some(completion) = completion else {
        return Ok(Completion::None);
    };
    let item = &lock.item.document;
    if target_instance(completion) == item.instance_id {
        let cause = OrchestratorItem::completion_cause(item.execution_id, item.activity_id);
        let message = OrchestratorItem::new(completion, cause, now, now)?;
        return Ok(Completion::Own(Box::new(message)));
    }
    let target = target_instance(completion);
    let intent = OutboxIntent::new(&item.instance_id, lock.token.clone(), target, now);
    Ok(Completion::Other(Box::new(OutboxIntent {
        items: vec![IntentItem {
            queue: IntentQueue::Orchestrator,
            work_item: Text::Inline(serde_json::to_string(completion)?),
            visible_at: now,
        }],
        ..intent
    })))
}

/// Sends the batch until it is known to be committed or the lock is known to be lost.
async fn send<'a>(services: &'a Services, lock: &mut WorkLock, cargo: &Cargo) -> Result<Sent<'a>> {
    let mut sent = Sent::new(services, lock, &cargo.completion);
    let mut sends = 0;
    while sends < MAX_SENDS {
        let batch = sent.batch(lock, cargo)?;
        let error = match services.container().execute(&batch).await {
            Ok(outcome) => {
                sent.outcome = Some(outcome);
                return Ok(sent);
            }
            Err(error) => error,
        };
        // What was to be locked on the way is not worth a failure.
        if sent.drops_what_failed(services, &error) {
            continue;
        }
        if may_wait(
            &services.store,
            lock,
            error.is_transient() && !error.is_ambiguous(),
        )
        .await
        {
            continue;
        }
        sends += 1;
        if !error.is_ambiguous() {
            sent.give_up(services);
            return Err(if error.is_not_found() || error.is_precondition_failed() {
                Error::LockLost(LOST)
            } else {
                error.into()
            });
        }
        match what_is_left(services, lock).await? {
            Some(stored) if stored.document.lock_token.as_deref() == Some(&lock.token) => {
                lock.item.etag = stored.etag;
            }
            Some(_) => {
                sent.give_up(services);
                return Err(Error::LockLost("another worker took the activity"));
            }
            // The item went with our batch. Had it been cancelled instead, its completion would be of no use to anyone.
            None => return Ok(sent),
        }
    }
    sent.give_up(services);
    Err(Error::Retryable("the service did not answer".to_owned()))
}

/// The item as it is now, whenever the store answers while the lock lasts.
async fn what_is_left(services: &Services, lock: &WorkLock) -> Result<Option<Stored<WorkerItem>>> {
    loop {
        match read(&services.store, &ActivityKey::of(&lock.item.document)).await {
            Err(error) if may_wait(&services.store, lock, error.is_retryable()).await => {}
            found => return found,
        }
    }
}

/// The end of an activity as it is sent: with the locks of what comes next.
struct Sent<'a> {
    /// The turn of the instance that waits for the completion.
    turn: Option<Prelock<'a>>,
    /// The worker's next activity.
    following: Option<Following<'a>>,
    /// Where in the batch the completion is.
    completion: Option<OperationIndex>,
    /// Nothing when the answer was lost.
    outcome: Option<BatchOutcome<Durable>>,
}

impl<'a> Sent<'a> {
    fn new(services: &'a Services, lock: &WorkLock, completion: &Completion) -> Self {
        let turn = match completion {
            Completion::Own(message) => Prelock::of_cached(services, &message.instance_id),
            _ => None,
        };
        Self {
            turn,
            following: Following::of(services, lock, services.store.now()),
            completion: None,
            outcome: None,
        }
    }

    fn batch(&mut self, lock: &WorkLock, cargo: &Cargo) -> Result<Batch<Durable>, BatchError> {
        let mut batch = Batch::new(&*lock.item.document.instance_id);
        // First, so that a lost lock shows up as this operation's 404 or 412.
        batch.delete_stored(&lock.item)?;
        cargo.spilling.settle(&mut batch)?;
        if let Some(consumed_chunks) = &cargo.consumed_chunks {
            consumed_chunks.add_to(&mut batch)?;
        }
        match &cargo.completion {
            Completion::None => {}
            Completion::Own(message) => {
                self.completion = Some(batch.create(&**message)?);
                if let Some(turn) = &mut self.turn {
                    turn.add_to(&mut batch, message)?;
                }
            }
            Completion::Other(intent) => {
                batch.create(&**intent)?;
            }
        }
        if let Some(following) = &mut self.following {
            following.add_to(&mut batch)?;
        }
        Ok(batch)
    }

    fn drops_what_failed(&mut self, services: &Services, error: &cdb_client::Error) -> bool {
        if error.is_ambiguous() {
            return false;
        }
        if let Some(turn) = self.turn.take_if(|turn| turn.failed(error)) {
            turn.give_up();
            return true;
        }
        if let Some(following) = self.following.take_if(|following| following.failed(error)) {
            following.give_up(services);
            return true;
        }
        false
    }

    fn give_up(self, services: &Services) {
        if let Some(turn) = self.turn {
            turn.give_up();
        }
        if let Some(following) = self.following {
            following.give_up(services);
        }
    }

    /// The batch took place: wakes who waits for what it left.
    fn hand_on(self, services: &Services, completion: Option<(OrchestratorItem, WorkItem)>) {
        let outcome = self.outcome.as_ref();
        match (self.following, outcome) {
            (Some(following), Some(outcome)) => following.won(services, outcome),
            (Some(following), None) => following.outcome_unknown(services),
            (None, _) => {}
        }
        let Some((document, item)) = completion else {
            return;
        };
        let (instance_id, execution_id) = (document.instance_id.clone(), document.execution_id);
        let message = outcome
            .zip(self.completion)
            .and_then(|(outcome, operation)| enqueued(outcome, operation, document, item));
        let lock = self.turn.as_ref().and_then(Prelock::operation);
        let lock = outcome.zip(lock);
        let etag = lock.and_then(|(outcome, operation)| outcome.etag(operation));
        match (self.turn, message, etag) {
            (Some(turn), Some(message), Some(etag)) => turn.won(etag, message),
            (Some(turn), ..) => turn.outcome_unknown(),
            (None, Some(message), _) => services.instances().expect(message),
            (None, None, _) => {
                services
                    .instances()
                    .suspect(&instance_id, execution_id, Duration::ZERO);
            }
        }
    }
}
