//! Locks taken ahead: together with the write that gives an instance something to do.
//!
//! Whoever enqueues a message for an instance that a dispatcher of this process will work on next can lock the instance
//! in the same batch. The dispatcher then finds its turn ready, and the lock has cost neither a request nor a round
//! trip. Nothing else changes: the lock is the same conditional write of the instance document, it ends by itself, and
//! one that no dispatcher asks for is given back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cdb_client::BatchOutcome;
use cdb_model::{
    Batch, BatchError, BulkBatch, Document, DocumentKey, ETag, OperationIndex, Stored,
};
use duroxide::providers::{DispatcherCapabilityFilter, WorkItem};
use tokio::time::Instant;

use super::begin::{self, Fetched};
use super::candidate::supports;
use super::claim::{Claim, Wish};
use super::lock::{attempts_before, lock_patch, locked, unlock_patch};
use super::mail::{MAX_MESSAGES, Message};
use super::memory::{Past, Remembered};
use super::renew::extend;
use super::table::Turn;
use crate::documents::{Durable, Instance, InstanceKey, OrchestratorItem};
use crate::error::Result;
use crate::history;
use crate::kv::KvState;
use crate::provider::Inner;

/// How long a turn that was locked ahead waits for a dispatcher before its lock is given back.
const UNWANTED_AFTER: Duration = Duration::from_secs(1);

/// A lock to be taken by a batch that somebody else writes.
pub(crate) struct Ahead<'a> {
    inner: &'a Inner,
    claim: Claim<'a>,
    token: String,
    timeout: Duration,
    /// Nothing for an instance that the batch is to create.
    before: Option<Arc<Remembered>>,
    /// Messages that are queued already.
    known: Vec<Message>,
    /// The instance as the batch leaves it, and where in the batch that is.
    after: Option<(Instance, OperationIndex)>,
}

impl<'a> Ahead<'a> {
    /// For an instance that this process remembers. `None` when it does not, or when no dispatcher here has use for it.
    pub(crate) fn of_remembered(inner: &'a Inner, instance_id: &str) -> Option<Self> {
        let timeout = room(inner)?;
        let before = inner.memory.get(instance_id)?;
        Self::claim(inner, instance_id, timeout, Some(before))
    }

    /// For an instance that the batch starts.
    pub(crate) fn of_start(inner: &'a Inner, item: &WorkItem) -> Option<Self> {
        let WorkItem::StartOrchestration { instance, .. } = item else {
            return None;
        };
        let timeout = room(inner)?;
        Self::claim(inner, instance, timeout, None)
    }

    /// For an instance that gets this message from another one.
    pub(crate) fn of_target(inner: &'a Inner, instance_id: &str, item: &WorkItem) -> Option<Self> {
        match item {
            WorkItem::StartOrchestration { .. } => Self::of_start(inner, item),
            _ => Self::of_remembered(inner, instance_id),
        }
    }

    fn claim(
        inner: &'a Inner,
        instance_id: &str,
        timeout: Duration,
        before: Option<Arc<Remembered>>,
    ) -> Option<Self> {
        let claim = Claim::try_new(inner, instance_id, timeout, None, Wish::None)?;
        let read_at = before.as_ref().and_then(|before| before.past.read_at);
        let mut known = inner.mail.due(instance_id, inner.container.now(), read_at);
        known.truncate(MAX_MESSAGES - 1);
        Some(Self {
            inner,
            claim,
            token: uuid::Uuid::new_v4().to_string(),
            timeout,
            before,
            known,
            after: None,
        })
    }

    /// Adds the lock to the batch that enqueues `message`.
    pub(crate) fn add_to(
        &mut self,
        batch: &mut Batch<Durable>,
        message: &OrchestratorItem,
    ) -> Result<(), BatchError> {
        let instance = self.locked(message)?;
        let operation = match &self.before {
            Some(before) => {
                let key = InstanceKey::new(&*self.claim.instance_id);
                batch.patch_if_match(&key, &lock_patch(&instance), &before.instance.etag)?
            }
            None => batch.create(&instance)?,
        };
        self.after = Some((instance, operation));
        Ok(())
    }

    /// Adds the lock to a bulk that enqueues `message`. There, each of both succeeds or fails by itself.
    pub(crate) fn add_to_bulk(
        &mut self,
        bulk: &mut BulkBatch<Durable>,
        message: &OrchestratorItem,
    ) -> Result<OperationIndex, BatchError> {
        let instance = self.locked(message)?;
        let operation = match &self.before {
            Some(before) => {
                let key = InstanceKey::new(&*self.claim.instance_id);
                bulk.patch_if_match(&key, &lock_patch(&instance), &before.instance.etag)?
            }
            None => bulk.create(&instance)?,
        };
        self.after = Some((instance, operation));
        Ok(operation)
    }

    /// The instance as it will be.
    fn locked(&self, message: &OrchestratorItem) -> Result<Instance, BatchError> {
        let now = self.inner.container.now();
        let id = message.key().to_id().map_err(BatchError::Id)?;
        let known = self.known.iter();
        let known = known.map(|message| (message.id(), &message.stored.document));
        let messages = known.chain([(&id, message)]);
        let times = (now, now + self.timeout);
        let instance = self.before.as_ref().map_or_else(
            || Instance::pending(&self.claim.instance_id, now),
            |before| before.instance.document.clone(),
        );
        Ok(locked(instance, &self.token, times, messages))
    }

    /// Where in the batch the lock is.
    pub(crate) fn operation(&self) -> Option<OperationIndex> {
        self.after.as_ref().map(|(_, operation)| *operation)
    }

    /// Whether it was the lock that made the batch fail: the instance is not as remembered.
    pub(crate) fn failed(&self, error: &cdb_client::Error) -> bool {
        let operation = self.operation().map(OperationIndex::get);
        operation.is_some() && error.operation_index() == operation
    }

    /// The batch did not take place, or without this lock.
    pub(crate) fn give_up(self) {
        self.inner.memory.forget(&self.claim.instance_id);
    }

    /// The lock was taken and gave the instance this version: the next dispatcher that asks gets the turn.
    pub(crate) fn won(self, etag: &ETag, message: Message) {
        let Some((instance, _)) = self.after else {
            return;
        };
        let inner = self.inner;
        let instance_id = instance.instance_id.clone();
        let Ok(id) = InstanceKey::new(&*instance_id).to_id() else {
            return;
        };
        let (past, kv) = match self.before {
            Some(before) => {
                inner.memory.forget(&instance_id);
                let Remembered { past, kv, .. } = Arc::unwrap_or_clone(before);
                (past, kv)
            }
            None => (Past::default(), KvState::default()),
        };
        let mut messages = self.known;
        messages.push(message);
        let claim = self.claim.number;
        self.claim.keep();
        let timestamp = instance.updated_at;
        keep(
            inner,
            Turn {
                token: self.token,
                claim,
                instance: Stored {
                    id,
                    document: instance,
                    etag: etag.clone(),
                    timestamp,
                },
                messages,
                lock_time: self.timeout,
                uncounted: None,
                kv,
                past: Ok(past),
                patient: true,
                begun_at: Instant::now(),
                refused: None,
                ended: false,
            },
        );
    }

    /// The batch took place, perhaps, but nobody knows what it left: gives the lock back if it was taken.
    pub(crate) fn lost_sight(self) {
        let (instance_id, token) = (self.claim.instance_id.clone(), self.token);
        let before = self.before.as_ref();
        let before = before.map(|before| before.instance.document.attempts.clone());
        self.inner.memory.forget(&instance_id);
        self.inner.spawn(|inner| async move {
            // The lock may have counted a message that was consumed long ago, which nobody would ever take out again.
            let attempts = |_: &Instance| before.unwrap_or_default();
            release_taken(&inner, &instance_id, &token, attempts).await;
        });
    }
}

/// How long a lock lasts that is taken now; nothing when no dispatcher here would begin its turn soon.
pub(super) fn room(inner: &Inner) -> Option<Duration> {
    if inner.background.is_closing() {
        return None;
    }
    let (ready, waiting) = inner.orchestrations.ready_and_waiting();
    inner.turns.room_ahead(ready, waiting)
}

/// Keeps a turn for the next dispatcher, and wakes one.
pub(super) fn keep(inner: &Inner, turn: Turn) {
    let instance_id = turn.instance.document.instance_id.clone();
    inner.turns.keep_ahead(turn);
    inner.hint_known(&instance_id, Duration::ZERO);
}

/// Begins a turn that was locked ahead, if this dispatcher may and the lock still lasts for long enough.
pub(super) async fn begin(
    inner: &Inner,
    mut turn: Turn,
    filter: Option<&DispatcherCapabilityFilter>,
    lock_timeout: Duration,
) -> Result<Option<Fetched>> {
    let now = inner.container.now();
    let pinned = turn.instance.document.pinned_duroxide_version_packed;
    if pinned.is_some_and(|pinned| !supports(filter, pinned)) {
        let instance_id = &turn.instance.document.instance_id;
        let newest = turn.messages.iter();
        let newest = newest.map(|message| message.stored.document.visible_at);
        let newest = newest.max().unwrap_or_default();
        inner.turns.avoid_unfit(instance_id, now, newest, pinned);
        give_back(inner, turn).await;
        return Ok(None);
    }
    turn.lock_time = lock_timeout;
    let fresh_until = Some(now + lock_timeout / 4 * 3);
    let is_fresh = |turn: &Turn| turn.instance.document.locked_until > fresh_until;
    // An error leaves the lock as it was: a load will tell.
    let lasts = is_fresh(&turn)
        || (extend(inner, &mut turn).await.is_ok_and(|held| held) && is_fresh(&turn));
    if !lasts {
        let instance_id = &turn.instance.document.instance_id;
        inner.release_instance(instance_id, turn.claim);
        inner.hint_unknown(instance_id, None, Duration::ZERO);
        return Ok(None);
    }
    merge_late(inner, &mut turn);
    begin::begin(inner, turn).await.map(Some)
}

/// Adds what has become known since the lock was taken.
pub(super) fn merge_late(inner: &Inner, turn: &mut Turn) {
    let Ok(past) = &turn.past else { return };
    let instance_id = &turn.instance.document.instance_id;
    for late in inner
        .mail
        .due(instance_id, inner.container.now(), past.read_at)
    {
        let is_new = |message: &Message| message.id() != late.id();
        if turn.messages.len() < MAX_MESSAGES && turn.messages.iter().all(is_new) {
            turn.messages.push(late);
        }
    }
}

/// Gives back the locks that no dispatcher has asked for.
pub(crate) async fn give_back_unwanted(inner: &Inner) {
    for turn in inner.turns.take_unwanted(UNWANTED_AFTER) {
        give_back(inner, turn).await;
    }
}

/// Unlocks the instance of a turn that nobody began, and lets anyone try it anew.
pub(super) async fn give_back(inner: &Inner, turn: Turn) {
    let instance_id = turn.instance.document.instance_id.clone();
    unlock(inner, &turn).await;
    inner.turns.forget_try(&turn.token);
    inner.release_instance(&instance_id, turn.claim);
    inner.hint_unknown(&instance_id, None, Duration::ZERO);
}

/// Gives back a lock of which the token is known and not the version, if it was taken. `attempts` are those that it leaves.
pub(super) async fn release_taken(
    inner: &Inner,
    instance_id: &str,
    token: &str,
    attempts: impl FnOnce(&Instance) -> BTreeMap<String, u32>,
) {
    match history::read_instance(&inner.container, instance_id).await {
        Ok(Some(stored)) if stored.document.lock_token.as_deref() == Some(token) => {
            let attempts = attempts(&stored.document);
            unlock_with(inner, &stored, attempts).await;
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "a lock is left to end by itself"),
    }
    inner.hint_unknown(instance_id, None, Duration::ZERO);
}

/// Gives the lock of a turn back. The attempt does not count.
pub(super) async fn unlock(inner: &Inner, turn: &Turn) {
    unlock_with(inner, &turn.instance, attempts_before(turn)).await;
}

async fn unlock_with(inner: &Inner, instance: &Stored<Instance>, attempts: BTreeMap<String, u32>) {
    let patch = unlock_patch(attempts, inner.container.now());
    if let Err(error) = inner.container.patch_stored(instance, &patch).await {
        tracing::debug!(%error, "a lock is left to end by itself");
    }
}

/// A message that a batch of this process has just enqueued.
pub(crate) fn enqueued(
    outcome: &BatchOutcome<Durable>,
    operation: OperationIndex,
    document: OrchestratorItem,
    item: WorkItem,
) -> Option<Message> {
    let etag = outcome.etag(operation)?.clone();
    Message::written(document, item, etag)
}
