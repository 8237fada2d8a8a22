//! The next turn of an instance, locked by the commit of the one before it.
//!
//! An instance that has more messages waiting when its turn is committed would be unlocked only to be locked again.
//! Where a dispatcher of this process will take the next turn anyway, the commit passes the lock on.

use std::time::Duration;

use cdb_model::{BatchError, Document, DocumentKey, Timestamp};
use tokio::time::Instant;

use super::ahead;
use super::commit::TurnResult;
use super::lock::{locked, take_out};
use super::mail::{MAX_MESSAGES, Message};
use super::memory::Remembered;
use super::table::Turn;
use crate::documents::{Instance, OrchestratorItem, Status};
use crate::provider::Inner;

/// A turn to begin with the commit of the turn before it.
pub(super) struct NextTurn {
    token: String,
    timeout: Duration,
    /// Messages that were queued before.
    known: Vec<Message>,
}

impl NextTurn {
    /// `None` when nothing waits, or nobody here would take it soon. `own` are the messages of the commit itself.
    pub(super) fn plan(
        inner: &Inner,
        turn: &Turn,
        result: &TurnResult,
        own: &[OrchestratorItem],
    ) -> Option<Self> {
        let status = result.metadata.status.clone().map(Status::from);
        let ends = matches!(status, Some(Status::Completed | Status::Failed));
        if ends || !turn.patient {
            return None;
        }
        let timeout = ahead::room(inner)?;
        let now = inner.container.now();
        let own = own.iter().filter(|item| item.due_at() <= now).count();
        let read_at = turn.past.as_ref().ok()?.read_at;
        let instance_id = &turn.instance.document.instance_id;
        let mut known = inner.mail.due(instance_id, now, read_at);
        known.retain(|known| {
            turn.messages
                .iter()
                .all(|message| message.id() != known.id())
        });
        known.truncate(MAX_MESSAGES.saturating_sub(own));
        (own + known.len() > 0).then(|| Self {
            token: uuid::Uuid::new_v4().to_string(),
            timeout,
            known,
        })
    }

    /// The instance as the commit leaves it: locked for the next turn.
    pub(super) fn lock(
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
        let times = (now, now + self.timeout);
        Ok(locked(instance, &self.token, times, messages))
    }

    /// The commit took place.
    pub(super) fn begin(self, inner: &Inner, before: &Turn, left: Remembered, own: Vec<Message>) {
        let mut messages = self.known;
        messages.extend(own);
        ahead::keep(
            inner,
            Turn {
                token: self.token,
                claim: before.claim,
                instance: left.instance,
                messages,
                lock_time: self.timeout,
                uncounted: None,
                kv: left.kv,
                past: Ok(left.past),
                patient: true,
                begun_at: Instant::now(),
                refused: None,
                ended: false,
            },
        );
    }

    /// The commit took place, but nobody knows which versions it left: gives the lock back.
    pub(super) fn lost_sight(self, inner: &Inner, before: &Turn) {
        let instance_id = before.instance.document.instance_id.clone();
        let mut attempts = before.instance.document.attempts.clone();
        take_out(&mut attempts, &before.messages);
        inner.spawn(|inner| async move {
            ahead::release_taken(&inner, &instance_id, &self.token, |_| attempts).await;
        });
    }
}
