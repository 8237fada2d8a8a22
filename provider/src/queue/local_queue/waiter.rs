//! The queue behind its mutex, and the guards of what is claimed and polled.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::claim::{Caller, Claim, Shared, UnusedPrelock, Won};
use super::limiter::Limiter;
use super::pace::{Pace, Polls};
use super::queue::{Limits, Queue};
use super::slot::{Behind, Memory, Work};
use crate::config::CosmosDBProviderConfig;
use crate::error::{Error, Result};

/// The most bytes of pending messages in memory. Further messages are read from the store when they
/// are due.
const PENDING_BYTES: usize = 32 * 1024 * 1024;

/// The most items in memory. Polls find the others.
const MAX_SLOTS: usize = 65_536;

/// A queue that the tasks of this process share.
pub(crate) struct LocalQueue<W: Work> {
    queue: Mutex<Queue<W>>,
    pub(crate) polls: Polls,
}

impl<W: Work> LocalQueue<W> {
    /// Creates a queue with the poll intervals of the configuration, this number of dispatchers, and
    /// at most `cached` bytes of cached state.
    pub(crate) fn new(config: &CosmosDBProviderConfig, dispatchers: u32, cached: usize) -> Self {
        let now = Instant::now().into_std();
        let pace = Pace::new(config.min_poll_interval, config.max_poll_interval, now);
        let name = uuid::Uuid::new_v4().to_string();
        let limits = Limits {
            memory: Memory {
                pending: PENDING_BYTES,
                cached,
            },
            slots: MAX_SLOTS,
        };
        Self {
            queue: Mutex::new(Queue::new(pace, limits, Limiter::new(&name, now))),
            polls: Polls::new(dispatchers),
        }
    }

    /// Changes or reads the queue. Afterwards, outside of its mutex, wakes dispatchers and frees
    /// memory.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Queue<W>, std::time::Instant) -> R) -> R {
        let (result, woken, garbage) = {
            let mut queue = self.queue.lock();
            let result = change(&mut queue, Instant::now().into_std());
            (result, queue.take_woken(), queue.take_garbage())
        };
        for notify in woken {
            notify.notify_one();
        }
        drop(garbage);
        result
    }

    /// Returns the item that the runtime is processing under this lock token.
    ///
    /// # Errors
    /// Fails when this process holds no such lock.
    pub(crate) fn running(&self, token: &str) -> Result<Shared<W>> {
        let running = self.with(|queue, _| queue.running(token));
        running.ok_or(Error::LockLost("this process holds no such lock"))
    }

    /// Ends the work of the dispatcher for an item whose end is still being stored.
    pub(crate) fn detach(&self, token: &str) {
        self.with(|queue, now| queue.detach(token, now));
    }

    /// Extends a lock.
    pub(crate) fn extend(&self, token: &str, until: std::time::Instant) {
        self.with(|queue, now| queue.extend(token, until, now));
    }

    /// Polls soon, because only a poll can find the work that may have arrived.
    pub(crate) fn poll_soon(&self) {
        self.with(Queue::poll_soon);
    }

    /// Notes the begin of a poll. Returns how long ago the items have become due that it needs to find,
    /// `None` for all items.
    pub(crate) fn begin_poll(&self) -> Option<Duration> {
        self.with(Queue::begin_poll)
    }

    /// Forgets the limited keys that were not in use for long.
    pub(crate) fn forget_unused(&self) {
        self.with(Queue::forget_unused);
    }

    /// Ends the phases whose time has come.
    pub(crate) fn tick(&self) {
        self.with(Queue::tick);
    }

    /// Takes the prelocks that are at least `age` old and that no dispatcher has used. Each must
    /// end with [`released`](Self::released).
    pub(crate) fn take_unused(&self, age: Duration) -> Vec<UnusedPrelock<W>> {
        self.with(|queue, now| {
            let before = now.checked_sub(age);
            before.map_or_else(Vec::new, |before| queue.take_unused(before, now))
        })
    }

    /// Notes that a lock was released, or will expire.
    pub(crate) fn released(&self, claim: &Claim<W::Key>) {
        self.with(|queue, now| queue.released(claim, now));
    }

    /// Claims an item for a prelock of a batch. Returns `None` when `claim` finds no suitable item.
    pub(crate) fn claim(
        &self,
        claim: impl FnOnce(&mut Queue<W>, std::time::Instant) -> Option<(Claim<W::Key>, W::Attempt)>,
    ) -> Option<(Guard<'_, W>, W::Attempt)> {
        let (claim, attempt) = self.with(claim)?;
        Some((self.guard(claim), attempt))
    }

    /// Returns the guard of a running background poll.
    pub(crate) fn polling(&self) -> Polling<'_, W> {
        Polling {
            queue: self,
            found: false,
        }
    }

    /// Returns the guard of an item that a fetch has claimed.
    pub(crate) fn guard(&self, claim: Claim<W::Key>) -> Guard<'_, W> {
        Guard {
            queue: self,
            claim,
            is_over: false,
        }
    }
}

/// An item that a fetch has claimed.
pub(crate) enum Taken<'a, W: Work> {
    /// A free item, to be locked.
    Free(Guard<'a, W>, W::Attempt),
    /// A prelocked item.
    Locked(Guard<'a, W>, W::Lock),
}

/// A background poll, which ends when this guard is dropped.
pub(crate) struct Polling<'a, W: Work> {
    queue: &'a LocalQueue<W>,
    found: bool,
}

impl<W: Work> Polling<'_, W> {
    /// Ends the poll, and notes whether it found anything.
    pub(crate) fn finish(mut self, found: bool) {
        self.found = found;
    }
}

impl<W: Work> Drop for Polling<'_, W> {
    fn drop(&mut self) {
        let found = self.found;
        self.queue.with(|queue, now| queue.end_poll(found, now));
    }
}

/// The claim to an item. If it is dropped before its attempt has ended, the item becomes free
/// again, and a lock that may have been taken is released.
pub(crate) struct Guard<'a, W: Work> {
    queue: &'a LocalQueue<W>,
    pub(crate) claim: Claim<W::Key>,
    is_over: bool,
}

impl<W: Work> Guard<'_, W> {
    /// Notes that a lock is requested with this token.
    pub(crate) fn locking(&self, token: &str, timeout: Duration) {
        self.queue
            .with(|queue, now| queue.locking(&self.claim, token, now + timeout, now));
    }

    /// Notes that another process was faster.
    pub(crate) fn lost_race(&self) {
        self.queue
            .with(|queue, now| queue.lost_race(&self.claim.key, now));
    }

    /// Ends the attempt without a lock. `learn` notes what the attempt found.
    pub(crate) fn release(self, learn: impl FnOnce(&mut W::Known)) {
        self.end(|queue, claim, now| queue.release(claim, now, learn));
    }

    /// Ends the attempt without a lock, and starts a backoff of `pause`.
    pub(crate) fn back_off(self, pause: Duration, learn: impl FnOnce(&mut W::Known)) {
        self.end(|queue, claim, now| queue.back_off(claim, now + pause, now, learn));
    }

    /// Returns how the item was behind others when it was taken.
    pub(crate) fn taken_from(&self) -> Option<Behind> {
        let key = &self.claim.key;
        self.queue.with(|queue, _| queue.taken_from(key))
    }

    /// Returns the number of items whose end is stored without a dispatcher.
    pub(crate) fn detached(&self) -> usize {
        self.queue.with(|queue, _| queue.detached())
    }

    /// Ends the attempt before it has sent anything. For `pause`, the item goes behind others.
    pub(crate) fn go_behind(self, pause: Duration, order: Behind) {
        self.end(|queue, claim, now| queue.go_behind(claim, now + pause, order, now));
    }

    /// Ends the attempt without an answer. The item is in backoff for `pause`; a lock that may have
    /// been taken will be released.
    pub(crate) fn unanswered(self, pause: Duration, learn: impl FnOnce(&mut W::Known)) {
        self.end(|queue, claim, now| queue.unanswered(claim, now + pause, now, learn));
    }

    /// Notes the prelock of the next turn.
    pub(crate) fn prelocked(self, won: Won<W::Lock>, learn: impl FnOnce(&mut W::Known)) {
        self.end(|queue, claim, now| queue.prelocked(claim, won, now, learn));
    }

    /// Hands the locked item to the runtime. Returns the item if its lock has expired.
    #[must_use = "an expired lock is released"]
    pub(crate) fn hand_out(
        self,
        won: Won<W::Running>,
        caller: Caller,
        learn: impl FnOnce(&mut W::Known),
    ) -> Option<W::Running> {
        self.end(|queue, claim, now| queue.hand_out(claim, won, caller, now, learn))
    }

    fn end<R>(
        mut self,
        end: impl FnOnce(&mut Queue<W>, &Claim<W::Key>, std::time::Instant) -> R,
    ) -> R {
        self.is_over = true;
        self.queue.with(|queue, now| end(queue, &self.claim, now))
    }
}

impl<W: Work> Drop for Guard<'_, W> {
    fn drop(&mut self) {
        if !self.is_over {
            self.queue
                .with(|queue, now| queue.dropped(&self.claim, now));
        }
    }
}
