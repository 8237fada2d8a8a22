//! A locked turn, from the lock to its end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_coordination::Lockable;
use cdb_model::{ETag, Stored, Timestamp};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

use super::cache::{CachedInstance, History};
use super::message::Message;
use super::rejected_commit::RejectedCommit;
use crate::documents::Instance;
use crate::kv::KvState;

/// What a lock holder knows about the instance since the lock was taken.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) token: String,
    /// The instance as locked: its ETag is the one that the commit is conditional on.
    pub(crate) instance: Stored<Instance>,
    pub(crate) messages: Vec<Message>,
    /// How long the lock lasts each time it is taken or renewed.
    pub(crate) lock_time: Duration,
    /// The attempts without the one that this lock has counted, once a commit has had to renew the lock.
    pub(crate) uncounted: Option<BTreeMap<String, u32>>,
    pub(crate) kv: KvState,
    /// The history of the newest execution, or why it cannot be read.
    pub(crate) history: Result<History, String>,
    /// Fetched by a dispatcher that waits for work: a runtime, not somebody who looks once.
    pub(crate) long_poll: bool,
    /// Its commit was refused for good; the runtime fails the orchestration instead.
    pub(crate) rejected: Option<RejectedCommit>,
    /// Committed, abandoned or lost. A second call with the same token waited for the first one and comes too late.
    pub(crate) ended: bool,
}

impl Turn {
    /// A turn that a batch of this process has locked for a dispatcher that polls.
    pub(crate) fn prelocked(
        token: String,
        lock_time: Duration,
        cached: CachedInstance,
        messages: Vec<Message>,
    ) -> Self {
        Self {
            token,
            instance: cached.instance,
            messages,
            lock_time,
            uncounted: None,
            kv: cached.kv,
            history: Ok(cached.history),
            long_poll: true,
            rejected: None,
            ended: false,
        }
    }

    /// Whether the lock still holds at `now`.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        !self.ended && !self.instance.document.is_lockable(now)
    }

    /// Whether less than `time` is left of the lock at `now`.
    pub(crate) fn lasts_less_than(&self, now: Timestamp, time: Duration) -> bool {
        self.instance.document.is_lockable(now + time)
    }

    /// The highest count of fetches among the messages. One that came after the lock was taken counts once.
    pub(crate) fn attempt_count(&self) -> u32 {
        let attempts = &self.instance.document.attempts;
        let count = |message: &Message| attempts.get(message.id().as_str()).copied().unwrap_or(1);
        self.messages.iter().map(count).max().unwrap_or(1)
    }

    /// A write of ours succeeded and gave the instance this version.
    pub(crate) fn advance(&mut self, instance: Instance, etag: ETag) {
        self.instance.document = instance;
        self.instance.etag = etag;
    }
}

/// A turn in the table. Renewal and commit of one turn both move its ETag, so they take turns.
#[derive(Debug)]
pub(crate) struct SharedTurn {
    turn: AsyncMutex<Turn>,
    is_committing: AtomicBool,
}

impl SharedTurn {
    pub(crate) fn new(turn: Turn) -> Self {
        Self {
            turn: AsyncMutex::new(turn),
            is_committing: AtomicBool::new(false),
        }
    }

    /// Waits for the right to change the turn.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().await
    }

    /// Waits for the right to commit the turn, and then keeps its lock.
    pub(crate) async fn lock_for_commit(&self) -> (MutexGuard<'_, Turn>, Committing<'_>) {
        let turn = self.turn.lock().await;
        self.is_committing.store(true, Ordering::Relaxed);
        (turn, Committing(self))
    }

    /// Whether a commit is under way, which renews the lock itself.
    pub(crate) fn is_committing(&self) -> bool {
        self.is_committing.load(Ordering::Relaxed)
    }
}

/// A commit of a turn that is under way.
pub(crate) struct Committing<'a>(&'a SharedTurn);

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.is_committing.store(false, Ordering::Relaxed);
    }
}
