//! The queue behind its mutex, and fetches that wait for it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::claim::{Claim, Unwanted, Won};
use super::dispatcher::{Ask, Next, WaiterId};
use super::queue::Queue;
use super::slot::{PollNumber, Work};
use crate::error::{Error, Result};

/// How long a fetch that does not wait sleeps before it looks again at an attempt of another dispatcher.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(5);

/// A queue that the tasks of this process share.
pub(crate) struct LocalQueue<W: Work> {
    state: Mutex<State<W>>,
}

struct State<W: Work> {
    queue: Queue<W>,
    notify: HashMap<WaiterId, Arc<Notify>>,
}

impl<W: Work> fmt::Debug for LocalQueue<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalQueue").finish_non_exhaustive()
    }
}

impl<W: Work> LocalQueue<W> {
    pub(crate) fn new(queue: Queue<W>) -> Self {
        let notify = HashMap::new();
        Self {
            state: Mutex::new(State { queue, notify }),
        }
    }

    /// Changes or reads the queue. Afterwards, outside of its mutex, wakes dispatchers and frees memory.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Queue<W>, std::time::Instant) -> R) -> R {
        let (result, woken, garbage) = {
            // Valid between any two events, so a panic elsewhere does not spoil it.
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { queue, notify } = &mut *state;
            let result = change(queue, Instant::now().into_std());
            let woken = queue.take_woken();
            let woken = woken.into_iter().filter_map(|id| notify.get(&id).cloned());
            let woken: Vec<_> = woken.collect();
            (result, woken, queue.take_garbage())
        };
        for notify in woken {
            notify.notify_one();
        }
        drop(garbage);
        result
    }

    /// Starts a fetch. It waits until `poll_timeout` is over if it waits at all.
    pub(crate) fn fetch(&self, ask: Ask<W::Ask>, poll_timeout: Duration) -> Fetch<'_, W> {
        let notify = Arc::new(Notify::new());
        let (long_poll, deadline) = (ask.long_poll, Instant::now() + poll_timeout);
        let id = self.with(|queue, _| queue.ask(ask));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.notify.insert(id, notify.clone());
        drop(state);
        Fetch {
            queue: self,
            id,
            notify,
            deadline,
            long_poll,
        }
    }

    /// The item that the runtime works on under this lock token.
    ///
    /// # Errors
    /// When this process holds no such lock.
    pub(crate) fn running(&self, token: &str) -> Result<Arc<W::Running>> {
        let running = self.with(|queue, _| queue.running(token));
        running.ok_or(Error::LockLost("this process holds no such lock"))
    }

    /// All items that the runtime works on.
    pub(crate) fn all_running(&self) -> Vec<Arc<W::Running>> {
        self.with(|queue, _| queue.all_running())
    }

    /// Moves the end of a lock.
    pub(crate) fn extend(&self, token: &str, until: std::time::Instant) {
        self.with(|queue, now| queue.extend(token, until, now));
    }

    /// Requests a poll soon: work may have come that only a poll can find.
    pub(crate) fn poll_soon(&self) {
        self.with(Queue::poll_soon);
    }

    /// Ends locks that have expired.
    pub(crate) fn tick(&self) {
        self.with(Queue::tick);
    }

    /// Starts no polls and takes no prelocks from now on.
    pub(crate) fn close(&self) {
        self.with(|queue, _| queue.close());
    }

    /// Takes out the items that were prelocked at least `age` ago and that no dispatcher has asked for. Each ends with
    /// [`released`](Self::released).
    pub(crate) fn take_unwanted(&self, age: Duration) -> Vec<Unwanted<W>> {
        self.with(|queue, now| {
            let before = now.checked_sub(age);
            before.map_or_else(Vec::new, |before| queue.take_unwanted(before, now))
        })
    }

    /// Takes out the locks that dropped fetches may have taken. Each ends with [`released`](Self::released).
    pub(crate) fn take_dropped(&self) -> Vec<(Claim<W::Key>, String)> {
        self.with(|queue, _| queue.take_releasing())
    }

    /// The lock was released, or expires by itself.
    pub(crate) fn released(&self, claim: &Claim<W::Key>) {
        self.with(|queue, now| queue.released(claim, now));
    }

    /// Claims an idle item for a lock that a batch is about to take; `None` while it is not idle.
    pub(crate) fn claim(
        &self,
        key: &W::Key,
        timeout: Duration,
    ) -> Option<(Guard<'_, W>, W::Attempt)> {
        let claimed = self.with(|queue, now| queue.claim(key, now, now + timeout));
        claimed.map(|(claim, attempt)| (self.guard(claim), attempt))
    }

    /// Claims a ready item for a lock that a batch is about to take.
    pub(crate) fn claim_ready(
        &self,
        timeout: Duration,
        wanted: impl Fn(&W::Known) -> bool,
    ) -> Option<(Guard<'_, W>, W::Attempt)> {
        let claimed = self.with(|queue, now| queue.claim_ready(now, now + timeout, wanted));
        claimed.map(|(claim, attempt)| (self.guard(claim), attempt))
    }

    /// The right to end a poll in the background.
    pub(crate) fn polling(&self) -> Polling<'_, W> {
        Polling {
            queue: self,
            found: false,
        }
    }

    fn guard(&self, claim: Claim<W::Key>) -> Guard<'_, W> {
        Guard {
            queue: self,
            claim,
            is_over: false,
        }
    }
}

/// An item that a fetch has got.
pub(crate) enum Taken<'a, W: Work> {
    /// To be tried.
    Free(Guard<'a, W>, W::Attempt),
    /// Locked already.
    Locked(Guard<'a, W>, W::Lock),
}

/// A fetch. Dropping it loses nothing.
pub(crate) struct Fetch<'a, W: Work> {
    queue: &'a LocalQueue<W>,
    id: WaiterId,
    notify: Arc<Notify>,
    deadline: Instant,
    long_poll: bool,
}

impl<'a, W: Work> Fetch<'a, W> {
    /// The next item for this fetch; `None` when its time is over.
    ///
    /// `poll` asks the store for a fetch that does not wait, and returns what it found. `start_poll` is called when a poll
    /// for all dispatchers is due: it runs one in the background and ends it with [`LocalQueue::polling`].
    ///
    /// # Errors
    /// Those of `poll`.
    pub(crate) async fn next<E, F: Future<Output = Result<Vec<W::Key>, E>>>(
        &mut self,
        mut poll: impl FnMut(PollNumber) -> F,
        start_poll: impl Fn(PollNumber),
    ) -> Result<Option<Taken<'a, W>>, E> {
        loop {
            let (next, poll_number) = self.queue.with(|queue, now| {
                let next = queue.next(self.id, now);
                let starts = self.long_poll.then(|| queue.start_poll(now));
                (next, starts.flatten())
            });
            if let Some(number) = poll_number {
                start_poll(number);
            }
            match next {
                Next::Try(claim, attempt) => {
                    return Ok(Some(Taken::Free(self.queue.guard(claim), attempt)));
                }
                Next::Begin(claim, lock) => {
                    return Ok(Some(Taken::Locked(self.queue.guard(claim), *lock)));
                }
                Next::Poll(number) => {
                    let found = poll(number).await?;
                    self.queue
                        .with(|queue, now| queue.end_own_poll(self.id, &found, now));
                }
                Next::WaitForAttempt => tokio::time::sleep(ATTEMPT_PAUSE).await,
                Next::GiveUp => return Ok(None),
                Next::Wait(_) if Instant::now() >= self.deadline => return Ok(None),
                Next::Wait(until) => {
                    let until =
                        until.map_or(self.deadline, |until| self.deadline.min(until.into()));
                    // Woken or not, the queue says what is next.
                    let _woken = tokio::time::timeout_at(until, self.notify.notified()).await;
                }
            }
        }
    }
}

impl<W: Work> Drop for Fetch<'_, W> {
    fn drop(&mut self) {
        self.queue.with(|queue, now| queue.leave(self.id, now));
        let state = self.queue.state.lock();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.notify.remove(&self.id);
    }
}

/// A poll in the background, which ends when this is dropped.
pub(crate) struct Polling<'a, W: Work> {
    queue: &'a LocalQueue<W>,
    found: bool,
}

impl<W: Work> Polling<'_, W> {
    /// Notes whether the poll has found anything.
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

/// The right to an item. Dropped before its attempt has come to a result, it makes the item free again, and a lock that it
/// may have taken is given back.
pub(crate) struct Guard<'a, W: Work> {
    queue: &'a LocalQueue<W>,
    pub(crate) claim: Claim<W::Key>,
    is_over: bool,
}

impl<W: Work> Guard<'_, W> {
    /// A lock is asked for under this token.
    pub(crate) fn locking(&self, token: &str, timeout: Duration) {
        self.queue
            .with(|queue, now| queue.locking(&self.claim, token, now + timeout, now));
    }

    /// The attempt ended without a lock; `learn` notes what it found.
    pub(crate) fn give_back(mut self, learn: impl FnOnce(&mut W::Known)) {
        self.is_over = true;
        self.queue
            .with(|queue, now| queue.give_back(&self.claim, now, learn));
    }

    /// The attempt ended without a lock, and dispatchers leave the item alone for `pause`.
    pub(crate) fn back_off(mut self, pause: Duration, learn: impl FnOnce(&mut W::Known)) {
        self.is_over = true;
        self.queue
            .with(|queue, now| queue.back_off(&self.claim, now + pause, now, learn));
    }

    /// The service did not answer. Dispatchers leave the item alone for `pause`; a lock that may have been taken is given
    /// back.
    pub(crate) fn unanswered(mut self, pause: Duration, learn: impl FnOnce(&mut W::Known)) {
        self.is_over = true;
        self.queue
            .with(|queue, now| queue.unanswered(&self.claim, now + pause, now, learn));
    }

    /// The lock may have been taken, and its token is all that is known: whoever gives it back calls
    /// [`Queue::released`] then.
    pub(crate) fn release_later(mut self) -> Claim<W::Key> {
        self.is_over = true;
        self.queue
            .with(|queue, now| queue.release_later(&self.claim, now));
        self.claim.clone()
    }

    /// The lock of the next turn was won.
    pub(crate) fn prelocked(mut self, won: Won<W::Lock>, learn: impl FnOnce(&mut W::Known)) {
        self.is_over = true;
        self.queue
            .with(|queue, now| queue.prelocked(&self.claim, won, now, learn));
    }

    /// The lock was won and the runtime gets the item.
    pub(crate) fn hand_out(
        mut self,
        won: Won<Arc<W::Running>>,
        long_poll: bool,
        learn: impl FnOnce(&mut W::Known),
    ) {
        self.is_over = true;
        self.queue
            .with(|queue, now| queue.hand_out(&self.claim, won, long_poll, now, learn));
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
