//! Prelocks: locks taken by a batch that starts a turn of an instance, such as a start, the end of
//! an activity, a delivery or a commit.
//!
//! The next dispatcher of this process finds its turn locked without another request. A prelock is
//! the same conditional write of the instance document as any lock. It expires, and is released if
//! no dispatcher uses it.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::BatchOutcome;
use cdb_model::{
    Batch, BatchError, BulkBatch, Document, DocumentKey, ETag, OperationIndex, Stored, Timestamp,
};
use duroxide::providers::WorkItem;
use tokio::time::Instant;

use super::cache::{CachedInstance, History};
use super::known::{Attempt, Instances};
use super::lock::{lock_patch, locked, remove_attempts};
use super::message::{MAX_MESSAGES, Message};
use super::release;
use super::turn::Turn;
use crate::error::Result;
use crate::queue::Services;
use crate::queue::local_queue::Guard;
use crate::stored::documents::{Durable, Instance, InstanceKey, OrchestratorItem};
use crate::stored::kv::KvState;

/// A lock to be taken by a batch.
pub(crate) struct Prelock<'a> {
    services: &'a Services,
    guard: Guard<'a, Instances>,
    token: String,
    timeout: Duration,
    /// The cached instance; `None` for an instance that the batch creates.
    before: Option<Arc<CachedInstance>>,
    /// Messages that are queued already.
    known: Vec<Message>,
    /// The instance after the batch, and the operation that writes it.
    after: Option<(Instance, OperationIndex)>,
}

impl<'a> Prelock<'a> {
    /// Prelocks a cached instance. Returns `None` when it is not cached, or no dispatcher is
    /// expected to take it soon.
    pub(crate) fn of_cached(services: &'a Services, instance_id: &str) -> Option<Self> {
        services.instances().cached(instance_id)?;
        Self::claim(services, instance_id, |attempt| attempt.cached.is_some())
    }

    /// Prelocks an instance that the batch starts. Returns `None` when `item` does not start one,
    /// or no dispatcher is expected to take it soon.
    pub(crate) fn of_start(services: &'a Services, item: &WorkItem) -> Option<Self> {
        let WorkItem::StartOrchestration { instance, .. } = item else {
            return None;
        };
        let mut prelock = Self::claim(services, instance, |_| true)?;
        prelock.before = None;
        Some(prelock)
    }

    /// Prelocks the instance that receives a message from another one.
    pub(crate) fn of_target(
        services: &'a Services,
        instance_id: &str,
        item: &WorkItem,
    ) -> Option<Self> {
        match item {
            WorkItem::StartOrchestration { .. } => Self::of_start(services, item),
            _ => Self::of_cached(services, instance_id),
        }
    }

    fn claim(
        services: &'a Services,
        instance_id: &str,
        is_suitable: impl Fn(&Attempt) -> bool,
    ) -> Option<Self> {
        let timeout = services.instances().prelock_timeout()?;
        let queue = services.instances().local();
        let key = instance_id.to_owned();
        let (guard, attempt) = queue.claim(|queue, now| queue.claim(&key, now))?;
        if !is_suitable(&attempt) {
            return None;
        }
        let known = attempt.messages;
        // The new message must not overtake those that the turn does not take.
        if attempt.has_backlog || known.len() == MAX_MESSAGES {
            return None;
        }
        Some(Self {
            services,
            guard,
            token: services.store.new_lock_token(),
            timeout,
            before: attempt.cached,
            known,
            after: None,
        })
    }

    /// Adds the lock to the batch that enqueues `message`. `write` creates the instance, or patches
    /// the version with this ETag.
    fn add_to(
        &mut self,
        message: &OrchestratorItem,
        write: impl FnOnce(&Instance, Option<&ETag>) -> Result<OperationIndex, BatchError>,
    ) -> Result<(), BatchError> {
        let instance = self.locked(message)?;
        let before = self.before.as_ref().map(|before| &before.instance.etag);
        let operation = write(&instance, before)?;
        self.after = Some((instance, operation));
        Ok(())
    }

    /// Returns the locked instance.
    fn locked(&self, message: &OrchestratorItem) -> Result<Instance, BatchError> {
        let now = self.services.store.now();
        self.guard.locking(&self.token, self.timeout);
        let id = message.key().to_id().map_err(BatchError::Id)?;
        let known = self.known.iter();
        let known = known.map(|message| (message.id(), &message.stored.document));
        let messages = known.chain([(&id, message)]);
        let instance = self.before.as_ref().map_or_else(
            || Instance::pending(&self.guard.claim.key, now),
            |before| before.instance.document.clone(),
        );
        Ok(locked(instance, messages, &self.token, now, self.timeout))
    }

    /// Returns the operation of the lock, once it is added.
    fn operation(&self) -> Option<OperationIndex> {
        self.after.as_ref().map(|(_, operation)| *operation)
    }

    /// Returns whether this lock made the batch fail, because the cached instance is outdated.
    fn failed(&self, error: &cdb_client::Error) -> bool {
        let operation = self.operation().map(OperationIndex::get);
        operation.is_some() && error.operation_index() == operation
    }

    /// Releases the claim after a failed batch, or a batch without this lock.
    fn release(self) {
        self.guard.release(|known| known.cached = None);
    }

    /// Notes the acquired lock at its version, for the next dispatcher.
    fn won(self, etag: &ETag, message: Message) {
        let Some((instance, _)) = self.after else {
            return;
        };
        let Ok(id) = InstanceKey::new(&*instance.instance_id).to_id() else {
            return;
        };
        let instance = Stored {
            id,
            timestamp: instance.updated_at,
            document: instance,
            etag: etag.clone(),
        };
        let (history, kv) = match &self.before {
            Some(before) => (before.history.clone(), before.kv.clone()),
            None => (History::default(), KvState::default()),
        };
        let mut messages = self.known;
        messages.push(message);
        let taken = messages.clone();
        let events = history.events.clone();
        let cached = CachedInstance {
            instance,
            history,
            kv,
        };
        let turn = Turn::prelocked(self.token, self.timeout, cached, messages);
        let won = self.services.instances().won(turn);
        self.guard.prelocked(won, |known| {
            known.cached = None;
            known.remove_messages(&taken);
            known.history = Some(events).filter(|events| !events.is_empty());
        });
    }

    /// Releases the lock, if it was taken, after a lost answer.
    fn outcome_unknown(self) {
        let token = self.token;
        let before = self.before.as_ref();
        let before = before.map(|before| before.instance.document.attempts.clone());
        let claim = self.guard.release_later();
        let instances = self.services.instances();
        // Before a later message is noted, which must not overtake the one of this batch.
        instances.recheck(&claim.key, None, Duration::ZERO);
        self.services.spawn(|services| async move {
            // The lock may have counted a message that was consumed before, whose count would stay
            // forever.
            let attempts = |_: &Instance| before.unwrap_or_default();
            release::release_taken(&services, &claim.key, &token, attempts).await;
            services.instances().local().released(&claim);
        });
    }
}

/// The prelock of an instance's next turn, taken by the commit of the current turn.
#[derive(Clone, Debug)]
pub(crate) struct NextTurn {
    token: String,
    timeout: Duration,
    /// Due messages that were queued before.
    known: Vec<Message>,
    /// Whether more of them are due than a turn takes, or unknown ones.
    has_backlog: bool,
}

impl NextTurn {
    /// Prepares the prelock after this turn. Returns `None` when no dispatcher is expected to take
    /// it soon, such as a turn without long polling.
    pub(crate) fn offer(services: &Services, turn: &Turn) -> Option<Self> {
        if !turn.caller.is_runtime() {
            return None;
        }
        let timeout = services.instances().prelock_timeout()?;
        let read_at = turn.history.as_ref().ok()?.read_at;
        let instance_id = &turn.instance.document.instance_id;
        let (mut known, has_backlog) = services.instances().due_messages(instance_id, read_at);
        known.retain(|known| {
            turn.messages
                .iter()
                .all(|message| message.id() != known.id())
        });
        Some(Self {
            token: services.store.new_lock_token(),
            timeout,
            known,
            has_backlog,
        })
    }

    /// Returns `None` when no message is due. Also returns `None` when those of the commit do not
    /// fit into a turn with all earlier ones, which they must not overtake.
    pub(crate) fn after(self, own: &[OrchestratorItem], now: Timestamp) -> Option<Self> {
        let own = own.iter().filter(|item| item.due_at() <= now).count();
        let count = own + self.known.len();
        let fits = !self.has_backlog && count <= MAX_MESSAGES;
        (count > 0 && (own == 0 || fits)).then_some(self)
    }

    /// Returns the instance locked for the next turn.
    pub(crate) fn lock(
        &self,
        instance: Instance,
        own: &[OrchestratorItem],
        now: Timestamp,
    ) -> Result<Instance, BatchError> {
        let due = own.iter().filter(|item| item.due_at() <= now);
        let due = due
            .map(|item| item.key().to_id().map(|id| (id, item)))
            .collect::<Result<Vec<_>, _>>()?;
        let known = self.known.iter();
        let known = known.map(|message| (message.id(), &message.stored.document));
        let messages = known.chain(due.iter().map(|(id, item)| (id, *item)));
        Ok(locked(instance, messages, &self.token, now, self.timeout))
    }

    /// Ends the committed turn `before`, and notes the prelocked next turn.
    pub(crate) fn begin(
        self,
        services: &Services,
        before: &mut Turn,
        cached: CachedInstance,
        own: Vec<Message>,
    ) {
        let mut messages = self.known;
        messages.extend(own);
        let next = Turn::prelocked(self.token, self.timeout, cached, messages);
        services.instances().finish_with_next(before, next);
    }

    /// Releases the lock after a commit whose new ETags are unknown.
    pub(crate) fn outcome_unknown(self, services: &Services, before: &Turn) {
        let instance_id = before.instance.document.instance_id.clone();
        let mut attempts = before.instance.document.attempts.clone();
        remove_attempts(&mut attempts, &before.messages);
        services.spawn(|services| async move {
            release::release_taken(&services, &instance_id, &self.token, |_| attempts).await;
        });
    }
}

/// A message that a batch enqueues, with the prelock of its turn.
pub(crate) struct NewMessage<'a> {
    services: &'a Services,
    document: OrchestratorItem,
    item: WorkItem,
    /// The time before the batch is sent.
    planned_at: Instant,
    operation: Option<OperationIndex>,
    lock: Option<Prelock<'a>>,
}

/// The known outcome of a write.
pub(crate) enum Written {
    /// The write took place, and left this ETag if the answer arrived.
    Done(Option<ETag>),
    NotDone,
    Unknown,
}

impl<'a> NewMessage<'a> {
    pub(crate) fn new(
        services: &'a Services,
        document: OrchestratorItem,
        item: WorkItem,
        lock: Option<Prelock<'a>>,
    ) -> Self {
        Self {
            services,
            document,
            item,
            planned_at: Instant::now(),
            operation: None,
            lock,
        }
    }

    pub(crate) fn add_to(&mut self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        self.operation = Some(batch.create(&self.document)?);
        let Some(lock) = &mut self.lock else {
            return Ok(());
        };
        lock.add_to(&self.document, |instance, before| match before {
            Some(etag) => batch.patch_if_match(&instance.key(), &lock_patch(instance), etag),
            None => batch.create(instance),
        })
    }

    /// Adds message and lock to a bulk, whose operations succeed or fail independently. Drops the
    /// lock if only the lock does not fit.
    pub(crate) fn add_to_bulk(&mut self, bulk: &mut BulkBatch<Durable>) -> Result<(), BatchError> {
        self.operation = Some(bulk.create(&self.document)?);
        self.lock.take_if(|lock| {
            let added = lock.add_to(&self.document, |instance, before| match before {
                Some(etag) => bulk.patch_if_match(&instance.key(), &lock_patch(instance), etag),
                None => bulk.create(instance),
            });
            added.is_err()
        });
        Ok(())
    }

    /// Drops the lock if it made the batch fail, because the cached instance is outdated. Returns
    /// whether it did.
    pub(crate) fn drops_failed_lock(&mut self, error: &cdb_client::Error) -> bool {
        let lock = self.lock.take_if(|lock| lock.failed(error));
        lock.map(Prelock::release).is_some()
    }

    /// Returns the operations of the message and of its lock.
    pub(crate) fn operations(&self) -> (Option<OperationIndex>, Option<OperationIndex>) {
        let lock = self.lock.as_ref().and_then(Prelock::operation);
        (self.operation, lock)
    }

    /// Finishes after a failed batch.
    pub(crate) fn release(self) {
        self.finish(Written::NotDone, &Written::NotDone);
    }

    /// Finishes after a batch with an unknown outcome.
    pub(crate) fn outcome_unknown(self) {
        self.finish(Written::Unknown, &Written::Unknown);
    }

    /// Finishes after a committed batch. `outcome` is `None` when the answer was lost.
    pub(crate) fn committed(self, outcome: Option<&BatchOutcome<Durable>>) {
        let (message, lock) = self.operations();
        let etag =
            |operation| Written::Done(outcome.and_then(|found| found.etag(operation?).cloned()));
        self.finish(etag(message), &etag(lock));
    }

    /// Notes the prelocked turn if message and lock were written. Otherwise releases the lock, and
    /// notes the message if it was written.
    pub(crate) fn finish(self, message: Written, lock: &Written) {
        let instances = self.services.instances();
        let instance_id = self.document.instance_id.clone();
        let execution = self.document.execution_id;
        let after = self.document.due_at().since(self.services.store.now());
        let may_be_written = !matches!(message, Written::NotDone);
        let message = match message {
            Written::Done(Some(etag)) => {
                Message::written(self.document, self.item, etag, self.planned_at)
            }
            _ => None,
        };
        // A lock with an unknown outcome is released by its token, which searches the partition.
        let mut is_searched = false;
        let message = match (self.lock, lock, message) {
            (Some(turn), Written::Done(Some(etag)), Some(message)) => {
                return turn.won(etag, message);
            }
            (None, _, message) => message,
            (Some(turn), Written::NotDone, message) => {
                turn.release();
                message
            }
            (Some(turn), _, message) => {
                turn.outcome_unknown();
                is_searched = true;
                message
            }
        };
        match message {
            Some(message) => instances.note_message(message),
            None if may_be_written && !is_searched => {
                instances.recheck(&instance_id, execution, after);
            }
            None => {}
        }
    }
}
