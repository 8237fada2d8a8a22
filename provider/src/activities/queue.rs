//! The activities that this process knows of: those that are free, locked for its workers, or running.

use std::sync::Arc;
use std::time::Duration;

use cdb_model::Stored;
use tokio::time::Instant;

use super::ask::{ActivityKey, WorkerAsk};
use super::known::{Activities, KnownActivity};
use super::reads::WorkerReads;
use super::running::WorkLock;
use crate::config::CosmosDBProviderConfig;
use crate::documents::WorkerItem;
use crate::local_queue::{Ask, Guard, Limits, LocalQueue, Memory, Pace, PollNumber, Queue, Won};
use crate::store::Store;

/// Most bytes of activities that are held, and most activities. Polls find the others.
const PENDING_BYTES: usize = 32 * 1024 * 1024;
const MOST_ACTIVITIES: usize = 65_536;

/// Activities are locked ahead of a worker at work when it will have the time within this.
const QUICK: Duration = Duration::from_millis(100);

/// How many activities are locked ahead of one worker, at most.
const MOST_AHEAD: usize = 4;

/// How far ahead activities are held that are to be run later.
const FARTHEST: Duration = Duration::from_secs(300);

/// The activities, for the workers of this process.
#[derive(Debug)]
pub(crate) struct ActivityQueue {
    queue: LocalQueue<Activities>,
    reads: WorkerReads,
    store: Store,
}

impl ActivityQueue {
    pub(crate) fn new(store: Store, config: &CosmosDBProviderConfig) -> Self {
        let now = Instant::now().into_std();
        let pace = Pace::new(config.min_poll_interval, config.max_poll_interval, now);
        let limits = Limits {
            memory: Memory {
                pending: PENDING_BYTES,
                cached: 0,
            },
            slots: MOST_ACTIVITIES,
        };
        Self {
            queue: LocalQueue::new(Queue::new(pace, limits)),
            reads: WorkerReads::default(),
            store,
        }
    }

    /// The state machine, for fetches and polls.
    pub(crate) fn local(&self) -> &LocalQueue<Activities> {
        &self.queue
    }

    /// This process knows of an activity that is free after a while.
    pub(crate) fn free(&self, item: Stored<WorkerItem>, after: Duration) {
        if after > FARTHEST {
            return;
        }
        let key = ActivityKey::of(&item.document);
        self.queue
            .with(|queue, now| queue.learn(&key, now, |known| known.note(item, now + after)));
    }

    /// An activity is locked for whichever worker of this process asks next.
    pub(crate) fn hand_over(&self, item: Stored<WorkerItem>) {
        let key = ActivityKey::of(&item.document);
        let won = self.won(item);
        self.queue.with(|queue, now| {
            if let Some((claim, _)) = queue.claim(&key, now, won.until) {
                queue.prelocked(&claim, won, now, KnownActivity::forget);
            }
        });
    }

    /// Ends the fetches of workers that do not take sessions, if an activity of a session is ready for them. duroxide has a
    /// worker ask without sessions while its runtime works on as many as it may; as soon as one worker asks with sessions
    /// again, the others may too, and find out by asking.
    pub(super) fn end_fetches_without_sessions(&self) {
        self.queue.with(|queue, _| {
            queue.end_fetches(|ask, known| {
                ask.session.is_none()
                    && known.item().is_some_and(|item| {
                        item.session_id.is_some() && ask.tags.matches(item.tag.as_deref())
                    })
            });
        });
    }

    /// Notes a free activity that a poll has found. `None` when a worker of this process has it, or all leave it alone.
    pub(super) fn found(&self, poll: PollNumber, item: Stored<WorkerItem>) -> Option<ActivityKey> {
        let key = ActivityKey::of(&item.document);
        self.queue.with(|queue, now| {
            if queue.is_busy(&key) || queue.is_backed_off(&key, now) {
                return None;
            }
            queue.learn_from_poll(poll, &key, |known| known.note(item, now));
            Some(key)
        })
    }

    /// For how many more activities there are workers here: for those that wait, and for those at work too while activities
    /// are quick.
    pub(super) fn room_ahead(&self) -> usize {
        self.queue.with(|queue, _| {
            let load = queue.load();
            let more = match queue.how_many_in(QUICK) {
                1 => 0,
                turns => turns.min(MOST_AHEAD) * (load.waiting + load.working),
            };
            load.waiting.max(more).saturating_sub(load.ready)
        })
    }

    /// What the workers of this process ask for; `None` when nothing new is to be begun.
    pub(super) fn last_ask(&self) -> Option<Ask<WorkerAsk>> {
        self.queue.with(|queue, _| queue.last_ask().cloned())
    }

    /// Claims an activity that is ready.
    pub(super) fn claim_ready(
        &self,
        timeout: Duration,
        wanted: impl Fn(&WorkerItem) -> bool,
    ) -> Option<(Guard<'_, Activities>, Stored<WorkerItem>)> {
        let (guard, seen) = self
            .queue
            .claim_ready(timeout, |known| known.item().is_some_and(&wanted))?;
        Some((guard, seen?))
    }

    /// A worker gets an activity.
    pub(super) fn hand_out(&self, guard: Guard<'_, Activities>, lock: WorkLock) {
        let long_poll = lock.ask.is_some();
        if long_poll {
            self.reads.expect(&lock.item.document.instance_id);
        }
        let won = Won {
            token: lock.token.clone(),
            until: self
                .store
                .local_time(lock.item.document.locked_until.unwrap_or_default()),
            lock: Arc::new(tokio::sync::Mutex::new(lock)),
        };
        guard.hand_out(won, long_poll, KnownActivity::forget);
    }

    /// An activity that is locked for the next worker that asks.
    pub(super) fn won(&self, item: Stored<WorkerItem>) -> Won<Stored<WorkerItem>> {
        Won {
            token: item.document.lock_token.clone().unwrap_or_default(),
            until: self
                .store
                .local_time(item.document.locked_until.unwrap_or_default()),
            lock: item,
        }
    }

    /// The lock is over, whatever its end.
    pub(super) fn finish(&self, lock: &mut WorkLock) {
        lock.ended = true;
        self.queue
            .with(|queue, now| queue.finish(&lock.token, now, KnownActivity::forget));
    }

    /// Whether a read of this history is a worker's before it runs an activity. True once per fetched activity.
    pub(crate) fn take_unread(&self, instance_id: &str) -> bool {
        self.reads.take(instance_id)
    }

    /// Ends locks that have expired, and forgets reads that did not come.
    pub(crate) fn sweep(&self) {
        self.queue.tick();
        self.reads.sweep();
    }
}
