//! The activities this process runs, by lock token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_model::{ETag, ItemId, Stored, Timestamp};
use duroxide::providers::TagFilter;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use crate::documents::WorkerItem;
use crate::error::{Error, Result};
use crate::wait::Usual;

/// An activity that this process has locked.
#[derive(Debug)]
pub(crate) struct WorkLock {
    pub(crate) token: String,
    /// The item as locked: its ETag is the one that renewal and end are conditional on.
    pub(crate) item: Stored<WorkerItem>,
    /// What the worker asks for that runs it; nothing for somebody who looks once.
    pub(crate) ask: Option<Arc<Ask>>,
    /// When a worker got it.
    pub(crate) begun_at: Instant,
    /// The last renewal failed, and not because the lock is lost.
    pub(crate) unanswered: bool,
    /// Ended, abandoned or lost. A second call with the same token waited for the first one and comes too late.
    pub(crate) ended: bool,
}

/// What a worker that waits for activities asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) lock_timeout: Duration,
    pub(crate) tags: TagFilter,
}

impl Ask {
    /// Whether an activity can be locked for this worker without looking at anything else.
    pub(super) fn may_lock(&self, item: &WorkerItem) -> bool {
        item.session_id.is_none() && self.tags.matches(item.tag.as_deref())
    }
}

impl WorkLock {
    /// Whether the lock still holds at `now`.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        !self.ended
            && self
                .item
                .document
                .locked_until
                .is_some_and(|until| until > now)
    }

    /// A write of ours succeeded and gave the item this version.
    pub(crate) fn advance(&mut self, item: WorkerItem, etag: ETag) {
        self.item.document = item;
        self.item.etag = etag;
    }
}

/// A lock in the table. Renewal and end both move its ETag, so they take turns.
pub(crate) type SharedLock = Arc<AsyncMutex<WorkLock>>;

/// All activities of this process.
#[derive(Debug, Default)]
pub(crate) struct WorkTable {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    locks: HashMap<String, SharedLock>,
    /// Items that a dispatcher of this process is trying or running, and until when at the latest.
    busy: HashMap<(String, ItemId), Timestamp>,
    last_ask: Option<Arc<Ask>>,
    pace: Usual,
    /// How many workers have fetched an activity of an instance and not yet read its history, and when last.
    unread: HashMap<String, (usize, Instant)>,
    /// Activities as a fetch has asked for them locked, by token, while no worker has got them. A fetch that is dropped
    /// leaves its activity here.
    tried: HashMap<String, WorkerItem>,
}

/// Activities are locked ahead of a worker at work when it will have the time within this.
const QUICK: Duration = Duration::from_millis(100);

/// How many activities are locked ahead of one worker, at most.
const MOST_AHEAD: usize = 4;

/// A worker reads the history right after it has fetched an activity, or not at all.
const READS_WITHIN: Duration = Duration::from_secs(1);

impl WorkTable {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims an item for this process's next lock. `false` while another dispatcher here has it.
    pub(crate) fn claim(
        &self,
        item: &Stored<WorkerItem>,
        now: Timestamp,
        until: Timestamp,
    ) -> bool {
        let mut state = self.state();
        let busy = state.busy.entry(key(item)).or_default();
        if *busy > now {
            return false;
        }
        *busy = until;
        true
    }

    /// Nobody here looks at an item that was claimed before `until`.
    pub(crate) fn avoid(&self, item: &Stored<WorkerItem>, until: Timestamp) {
        self.state().busy.insert(key(item), until);
    }

    /// Whether a dispatcher of this process has an item, or all avoid it.
    pub(crate) fn is_busy(&self, item: &Stored<WorkerItem>, now: Timestamp) -> bool {
        let state = self.state();
        state.busy.get(&key(item)).is_some_and(|until| *until > now)
    }

    /// Gives a claim back.
    pub(crate) fn release(&self, item: &Stored<WorkerItem>) {
        self.state().busy.remove(&key(item));
    }

    /// Notes what a waiting worker asks for: activities locked ahead of it are locked for that.
    pub(crate) fn note_ask(&self, ask: Arc<Ask>) {
        self.state().last_ask = Some(ask);
    }

    /// What the workers of this process ask for.
    pub(crate) fn last_ask(&self) -> Option<Arc<Ask>> {
        self.state().last_ask.clone()
    }

    /// For how many more activities there are workers here, when `ready` are ready and `waiting` workers wait: for those
    /// who wait, and for those at work too while activities are quick.
    pub(crate) fn room_ahead(&self, ready: usize, waiting: usize) -> usize {
        let state = self.state();
        let patient = state.locks.values();
        let patient =
            patient.filter(|lock| lock.try_lock().map_or(true, |lock| lock.ask.is_some()));
        let more = match state.pace.how_many_in(QUICK) {
            1 => 0,
            turns => turns.min(MOST_AHEAD) * (waiting + patient.count()),
        };
        waiting.max(more).saturating_sub(ready)
    }

    /// Whether a read of this history is a worker's before it runs an activity, rather than a client's who wants news.
    /// True once per fetched activity.
    pub(crate) fn take_unread(&self, instance_id: &str) -> bool {
        let mut state = self.state();
        let Some((count, since)) = state.unread.get_mut(instance_id) else {
            return false;
        };
        let in_time = since.elapsed() < READS_WITHIN;
        *count = if in_time { *count - 1 } else { 0 };
        if *count == 0 {
            state.unread.remove(instance_id);
        }
        in_time
    }

    /// Registers a lock that was won.
    pub(crate) fn insert(&self, lock: WorkLock) {
        let mut state = self.state();
        let until = lock.item.document.locked_until.unwrap_or_default();
        state.busy.insert(key(&lock.item), until);
        if lock.ask.is_some() {
            let instance_id = lock.item.document.instance_id.clone();
            let (count, since) = state
                .unread
                .entry(instance_id)
                .or_insert((0, Instant::now()));
            *count += 1;
            *since = Instant::now();
        }
        let token = lock.token.clone();
        state.tried.remove(&token);
        state.locks.insert(token, Arc::new(AsyncMutex::new(lock)));
    }

    /// A fetch asks for this lock.
    pub(super) fn try_lock(&self, item: WorkerItem) {
        let token = item.lock_token.clone().unwrap_or_default();
        self.state().tried.insert(token, item);
    }

    /// The lock was not won.
    pub(super) fn forget_try(&self, item: &WorkerItem) {
        let token = item.lock_token.as_deref().unwrap_or_default();
        self.state().tried.remove(token);
    }

    /// Takes out the activities that were asked for and that no worker has got.
    pub(super) fn take_tried(&self) -> Vec<WorkerItem> {
        let tried = std::mem::take(&mut self.state().tried);
        tried.into_values().collect()
    }

    /// The activities that workers have got.
    pub(super) fn held(&self) -> Vec<SharedLock> {
        self.state().locks.values().cloned().collect()
    }

    /// The lock of a token, for `operation`.
    ///
    /// # Errors
    /// When this process holds no such lock.
    pub(crate) fn get(&self, token: &str) -> Result<SharedLock> {
        let held = self.state().locks.get(token).cloned();
        held.ok_or_else(|| Error::LockLost("this process holds no such lock"))
    }

    /// The lock now holds until `until`.
    pub(crate) fn extend(&self, item: &Stored<WorkerItem>, until: Timestamp) {
        self.state().busy.insert(key(item), until);
    }

    /// The lock is over, whatever its end.
    pub(crate) fn remove(&self, lock: &mut WorkLock) {
        lock.ended = true;
        let mut state = self.state();
        state.pace.took(lock.begun_at.elapsed());
        state.locks.remove(&lock.token);
        state.busy.remove(&key(&lock.item));
    }

    /// Forgets locks that have ended long ago: their runtime gave up on them.
    pub(crate) fn sweep(&self, now: Timestamp) {
        let mut state = self.state();
        state
            .locks
            .retain(|_, lock| lock.try_lock().map_or(true, |lock| lock.holds(now)));
        state.busy.retain(|_, until| *until > now);
        state.tried.retain(|_, item| item.locked_until > Some(now));
        let in_time = |since: &Instant| since.elapsed() < READS_WITHIN;
        state.unread.retain(|_, (_, since)| in_time(since));
    }
}

fn key(item: &Stored<WorkerItem>) -> (String, ItemId) {
    (item.document.instance_id.clone(), item.id.clone())
}
