//! The activities that this process knows: free, prelocked, or running.

use std::time::Duration;

use cdb_coordination::search::Runs;
use cdb_model::{Document, Stored};
use duroxide::Event;

use super::busy_workers::BusyWorkers;
use super::capability::{ActivityKey, WorkerCapability};
use super::known::{Activities, KnownActivity};
use super::reads::{WorkerRead, WorkerReads};
use super::running::WorkLock;
use crate::config::CosmosDBProviderConfig;
use crate::queue::local_queue::{FetchRequest, Guard, LocalQueue, PollNumber, Shared, Takers, Won};
use crate::stored::Store;
use crate::stored::documents::WorkerItem;
use crate::timing::{ACTIVITY_KEPT, PRELOCK_WITHIN};

/// The most activities that are prelocked per worker.
const MAX_PRELOCKS: usize = 4;

/// The most ready activities that are looked through for those of other instances.
const MOST_READY: usize = 128;

/// The local queue of activities.
pub(crate) struct ActivityQueue {
    queue: LocalQueue<Activities>,
    reads: WorkerReads,
    workers: BusyWorkers,
    store: Store,
}

impl ActivityQueue {
    pub(crate) fn new(store: Store, config: &CosmosDBProviderConfig) -> Self {
        Self {
            queue: LocalQueue::new(config, config.worker_concurrency, 0),
            reads: WorkerReads::default(),
            workers: BusyWorkers::default(),
            store,
        }
    }

    /// Returns the state machine, for fetches and polls.
    pub(crate) fn local(&self) -> &LocalQueue<Activities> {
        &self.queue
    }

    /// Notes that a worker asks for an activity.
    pub(crate) fn note_fetch(&self) {
        self.workers.note_fetch();
    }

    /// Notes an activity that is free after a delay.
    pub(crate) fn note_free(&self, item: Stored<WorkerItem>, after: Duration) {
        if after > ACTIVITY_KEPT {
            return;
        }
        let key = item.document.key();
        self.queue.with(|queue, now| {
            queue.label(&key, || item.document.all_labels());
            queue.learn(&key, now, |known| known.note(item, now + after));
        });
    }

    /// Notes an activity that this process has delivered. A poll may have found it before the answer to its creation,
    /// and a worker may run it.
    pub(crate) fn note_delivered(&self, item: Stored<WorkerItem>) {
        let key = item.document.key();
        self.queue.with(|queue, now| {
            if queue.is_busy(&key) || queue.is_backed_off(&key, now) {
                return;
            }
            queue.label(&key, || item.document.all_labels());
            queue.learn(&key, now, |known| known.note(item, now));
        });
    }

    /// Notes an activity that this process has created: prelocked for its next worker that fetches, or
    /// free. Returns a prelocked one that the caller must release, because an attempt on a deleted
    /// activity of its key is under way.
    #[must_use = "a prelock that nobody uses is released"]
    pub(crate) fn note_created(&self, item: Stored<WorkerItem>) -> Option<Stored<WorkerItem>> {
        let key = item.document.key();
        let is_prelocked = item.document.lock_token.is_some();
        self.queue.with(|queue, now| {
            queue.replaced(&key, now);
            queue.label(&key, || item.document.all_labels());
            if !is_prelocked {
                queue.learn(&key, now, |known| known.note(item, now));
                return None;
            }
            let Some((claim, _)) = queue.claim(&key, now) else {
                return Some(item);
            };
            queue.prelocked(&claim, self.won(item), now, KnownActivity::forget);
            None
        })
    }

    /// Ends the fetches of workers without sessions if a session's activity is ready for them.
    /// duroxide lets a worker fetch without sessions while its runtime holds its maximum of
    /// sessions. Once one worker fetches with sessions again, the others may too, and learn it by
    /// fetching.
    pub(crate) fn end_fetches_without_sessions(&self) {
        self.queue.with(|queue, _| {
            queue.end_fetches(|request, known| {
                request.session.is_none()
                    && known.item().is_some_and(|item| {
                        item.session_id.is_some() && request.tags.matches(item.tag.as_deref())
                    })
            });
        });
    }

    /// Notes a free activity that a poll for `enough` activities has found. Returns `None` when a
    /// worker of this process has the activity, or when it is in backoff; and whether the activity
    /// counts as one that can run.
    pub(crate) fn found(
        &self,
        poll: PollNumber,
        enough: u32,
        item: Stored<WorkerItem>,
    ) -> Option<(ActivityKey, Runs)> {
        let key = item.document.key();
        self.queue.with(|queue, now| {
            if queue.is_busy(&key) || queue.is_backed_off(&key, now) {
                return None;
            }
            queue.label(&key, || item.document.all_labels());
            queue.learn_from_poll(poll, &key, |known| known.note(item, now));
            let runs = queue.polled(&key, poll, enough);
            Some((key, runs))
        })
    }

    /// Returns how many more activities the workers of this process can take: one per waiting
    /// worker, `freed` ones included, and several per worker while activities are short.
    pub(crate) fn prelock_capacity(&self, freed: usize) -> usize {
        self.queue.with(|queue, _| {
            let load = queue.load();
            let more = match queue.items_within(PRELOCK_WITHIN) {
                1 => 0,
                turns => turns.min(MAX_PRELOCKS) * (load.waiting + load.working),
            };
            let waiting = load.waiting + freed;
            waiting.max(more).saturating_sub(load.ready)
        })
    }

    /// Returns for which dispatchers a worker may wait with a completion of an instance: only for idle ones while
    /// activities of the instance wait for a worker; `None` while those of other instances do, or others wait
    /// for its permits.
    pub(crate) fn may_wait_for(&self, instance_id: &str) -> Option<Takers> {
        self.queue.with(|queue, _| {
            let load = queue.load();
            let is_spare = load.ready <= load.waiting;
            let is_own = |key: &ActivityKey| *key.instance_id == *instance_id;
            let may_hold = is_spare || queue.are_all_ready(MOST_READY, is_own);
            let takers = if is_spare { Takers::Any } else { Takers::Idle };
            (may_hold && !queue.waits_for_permits()).then_some(takers)
        })
    }

    /// Returns the request of the worker that fetched last; `None` when no new activity is to be
    /// started.
    pub(crate) fn last_request(&self) -> Option<FetchRequest<WorkerCapability>> {
        self.queue.with(|queue, _| queue.last_request().cloned())
    }

    /// Returns for how long an activity may be locked. A limited one is not locked beyond the lease of this process.
    pub(crate) fn lock_time(&self, key: &ActivityKey, lock: Duration) -> Duration {
        self.queue
            .with(|queue, now| queue.lock_time(key, lock, now))
    }

    /// Hands an activity to a worker. Returns the activity if its lock has expired.
    #[must_use = "an expired lock is released"]
    pub(crate) fn hand_out(
        &self,
        guard: Guard<'_, Activities>,
        lock: WorkLock,
    ) -> Option<WorkLock> {
        let caller = lock.request.caller;
        let until = lock.item.document.locked_until.unwrap_or_default();
        let won = Won {
            token: lock.token.clone(),
            until: self.store.local_time(until),
            lock,
        };
        guard.hand_out(won, caller, KnownActivity::forget)
    }

    /// Returns the prelock of an activity, for the next worker that fetches.
    pub(crate) fn won(&self, item: Stored<WorkerItem>) -> Won<Stored<WorkerItem>> {
        let until = item.document.locked_until.unwrap_or_default();
        Won {
            token: item.document.lock_token.clone().unwrap_or_default(),
            until: self.store.local_time(until),
            lock: item,
        }
    }

    /// Returns the lock of an activity that this process runs.
    pub(crate) fn lock_of(&self, key: &ActivityKey) -> Option<Shared<Activities>> {
        self.queue.with(|queue, _| queue.running_at(key))
    }

    /// Ends the lock, whatever the outcome.
    pub(crate) fn finish(&self, lock: &mut WorkLock) {
        lock.ended = true;
        self.queue
            .with(|queue, now| queue.finish(&lock.token, now, KnownActivity::forget));
    }

    /// Expects that a worker reads the history of the activity that it is handed, which may have been
    /// read before.
    pub(crate) fn expect_read(&self, instance_id: &str, history: Option<Vec<Event>>) {
        self.reads.note_fetch(instance_id, history);
    }

    /// Returns the read of a history if it precedes the execution of an activity, once per fetched
    /// activity.
    pub(crate) fn take_unread(&self, instance_id: &str) -> Option<WorkerRead> {
        self.reads.take(instance_id)
    }

    /// Warns when all workers of this process have been busy for a while.
    pub(crate) fn warn_of_busy_workers(&self) {
        let (waiting, running) = self
            .queue
            .with(|queue, _| (queue.load().waiting, queue.all_running()));
        self.workers.report(waiting, &running);
    }

    /// Ends expired locks, and forgets reads that did not come.
    pub(crate) fn sweep(&self) {
        self.queue.tick();
        self.reads.sweep();
    }
}
