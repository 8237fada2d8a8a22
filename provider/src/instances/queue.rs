//! The instances that this process knows of: what has messages, what is cached, what is being worked on.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cdb_model::ItemId;
use duroxide::Event;
use duroxide::providers::DispatcherCapabilityFilter;
use tokio::time::Instant;

use super::cache::CachedInstance;
use super::known::{FIRST_PAUSE, Instances, KnownInstance, Outlook};
use super::message::{MAX_MESSAGES, Message};
use super::turn::{SharedTurn, Turn};
use crate::config::CosmosDBProviderConfig;
use crate::local_queue::{Ask, Guard, Limits, LocalQueue, Memory, Pace, PollNumber, Queue, Won};
use crate::store::Store;

/// Most bytes of messages that are held between two turns. What has no room is read from the store when it is due.
const PENDING_BYTES: usize = 32 * 1024 * 1024;

/// Most instances that are known, whatever is known of them.
const MOST_INSTANCES: usize = 65_536;

/// How many consumed messages are remembered, so that a poll that was answered before their turn was committed does not
/// bring them back.
const CONSUMED: usize = 16_384;

/// How far ahead messages are held, so that timers of next month do not fill the memory.
const FARTHEST: Duration = Duration::from_secs(300);

/// A lock is taken ahead when its turn is to be expected within this part of the lock time, so that most of it is left then.
const WAIT_SHARE: u32 = 8;

/// How many instances may be ready per dispatcher, at most, for another one to be locked ahead.
const MOST_AHEAD: usize = 64;

/// The instances with messages, for the dispatchers of this process.
#[derive(Debug)]
pub(crate) struct InstanceQueue {
    queue: LocalQueue<Instances>,
    consumed: Mutex<Consumed>,
    store: Store,
}

/// Messages that turns of this process have consumed, and when that was known.
#[derive(Debug, Default)]
struct Consumed {
    at: HashMap<ItemId, Instant>,
    order: VecDeque<ItemId>,
}

impl InstanceQueue {
    pub(crate) fn new(store: Store, config: &CosmosDBProviderConfig) -> Self {
        let now = Instant::now().into_std();
        let pace = Pace::new(config.min_poll_interval, config.max_poll_interval, now);
        let limits = Limits {
            memory: Memory {
                pending: PENDING_BYTES,
                cached: usize::try_from(config.history_cache_bytes).unwrap_or(usize::MAX),
            },
            slots: MOST_INSTANCES,
        };
        Self {
            queue: LocalQueue::new(Queue::new(pace, limits)),
            consumed: Mutex::default(),
            store,
        }
    }

    /// The state machine, for fetches and polls.
    pub(crate) fn local(&self) -> &LocalQueue<Instances> {
        &self.queue
    }

    /// What this process learned of an instance by itself.
    fn learn(&self, instance_id: &str, learn: impl FnOnce(&mut KnownInstance, std::time::Instant)) {
        let key = instance_id.to_owned();
        self.queue
            .with(|queue, now| queue.learn(&key, now, |known| learn(known, now)));
    }

    /// This process has queued a message, or knows one that waits.
    pub(crate) fn expect(&self, message: Message) {
        let document = &message.stored.document;
        let after = document.due_at().since(self.store.now());
        if after > FARTHEST || self.is_consumed(&message) {
            return;
        }
        let instance_id = document.instance_id.clone();
        self.queue.with(|queue, now| {
            let note = |known: &mut KnownInstance| {
                known.forgive();
                known.note(message, now + after, false);
            };
            // It may be what the instance waited for.
            if queue
                .known(&instance_id)
                .is_some_and(KnownInstance::is_unfit)
            {
                queue.learn_and_recheck(&instance_id, now, note);
            } else {
                queue.learn(&instance_id, now, note);
            }
        });
    }

    /// An instance may have messages after a while; its partition must be searched then.
    pub(crate) fn suspect(&self, instance_id: &str, execution: Option<u64>, after: Duration) {
        if after > FARTHEST {
            return;
        }
        self.learn(instance_id, |known, now| {
            known.search(now + after);
            known.execution = execution.filter(|number| *number > 1).or(known.execution);
        });
    }

    /// Notes a message that a poll has found, and says what it means here.
    pub(crate) fn found(&self, poll: PollNumber, message: Message) -> Outlook {
        if self.is_consumed(&message) {
            return Outlook::Work;
        }
        let document = &message.stored.document;
        let (visible_at, execution) = (document.visible_at, document.execution_id);
        let after = document.due_at().since(self.store.now());
        let instance_id = document.instance_id.clone();
        self.queue.with(|queue, now| {
            let is_backed_off = queue.is_backed_off(&instance_id, now);
            let mut outlook = Outlook::Work;
            queue.learn_from_poll(poll, &instance_id, |known| {
                outlook = known.outlook(visible_at, is_backed_off);
                if outlook != Outlook::Nothing {
                    known.execution = execution.filter(|number| *number > 1).or(known.execution);
                    known.note(message, now + after, true);
                }
            });
            if outlook == Outlook::Work && is_backed_off {
                queue.end_backoff(&instance_id);
            }
            outlook
        })
    }

    /// Reads something of what is known of an instance.
    pub(crate) fn read<R>(
        &self,
        instance_id: &str,
        read: impl FnOnce(&KnownInstance) -> Option<R>,
    ) -> Option<R> {
        let key = instance_id.to_owned();
        self.queue.with(|queue, _| queue.known(&key).and_then(read))
    }

    /// The instance as its last commit here left it.
    pub(crate) fn cached(&self, instance_id: &str) -> Option<Arc<CachedInstance>> {
        self.read(instance_id, |known| known.cached().cloned())
    }

    /// What this process knows of the history of an instance, if anything.
    pub(crate) fn history(&self, instance_id: &str) -> Option<Arc<Vec<Event>>> {
        self.read(instance_id, |known| {
            let cached = known.cached().map(|cached| cached.history.events.clone());
            cached.or_else(|| known.history.clone())
        })
    }

    /// The newest execution of an instance, if this process has seen a later one than the first. A guess.
    pub(crate) fn newest_execution(&self, instance_id: &str) -> Option<u64> {
        self.read(instance_id, |known| known.execution)
    }

    /// Whether a runtime of this process works on an instance, or just has: what comes for it is for this runtime.
    pub(crate) fn is_home_of(&self, instance_id: &str) -> bool {
        let key = instance_id.to_owned();
        self.queue.with(|queue, _| {
            let known = queue.known(&key);
            queue.is_busy(&key) || known.is_some_and(|known| known.cached().is_some())
        })
    }

    /// Whether dispatchers of this process wait for work or do it.
    pub(crate) fn has_dispatchers(&self) -> bool {
        let load = self.queue.with(|queue, _| queue.load());
        load.waiting + load.working > 0
    }

    /// How long a lock lasts that is taken ahead now; `None` when no dispatcher here would begin its turn soon.
    pub(crate) fn room_ahead(&self) -> Option<Duration> {
        self.queue.with(|queue, _| {
            let timeout = queue.last_ask()?.lock_timeout;
            let load = queue.load();
            let each = queue.how_many_in(timeout / WAIT_SHARE).min(MOST_AHEAD);
            (load.ready < each * (load.waiting + load.working)).then_some(timeout)
        })
    }

    /// Adds messages to a turn that have become known since its lock was taken.
    pub(crate) fn merge_late(&self, turn: &mut Turn) {
        let Ok(history) = &turn.history else { return };
        let instance_id = &turn.instance.document.instance_id;
        for late in self.due_messages(instance_id, history.read_at) {
            let is_new = |message: &Message| message.id() != late.id();
            if turn.messages.len() < MAX_MESSAGES && turn.messages.iter().all(is_new) {
                turn.messages.push(late);
            }
        }
    }

    /// The runtime gets a turn.
    pub(crate) fn hand_out(&self, guard: Guard<'_, Instances>, turn: Turn) {
        let long_poll = turn.long_poll;
        let execution = turn.instance.document.current_execution_id;
        let history = turn
            .history
            .as_ref()
            .ok()
            .map(|history| history.events.clone());
        let messages = turn.messages.clone();
        guard.hand_out(self.won_running(turn), long_poll, |known| {
            known.set_cached(None);
            known.take(&messages);
            known.execution = (execution > 1).then_some(execution);
            // The first turn has none, and its activities are scheduled by its commit.
            known.history = history.filter(|events| !events.is_empty());
        });
    }

    fn won_running(&self, turn: Turn) -> Won<Arc<SharedTurn>> {
        Won {
            token: turn.token.clone(),
            until: self
                .store
                .local_time(turn.instance.document.locked_until.unwrap_or_default()),
            lock: Arc::new(SharedTurn::new(turn)),
        }
    }

    /// A lock that was won ahead of the dispatcher that will ask for it.
    pub(crate) fn won(&self, turn: Turn) -> Won<Turn> {
        Won {
            token: turn.token.clone(),
            until: self
                .store
                .local_time(turn.instance.document.locked_until.unwrap_or_default()),
            lock: turn,
        }
    }

    /// The turn is over, and what it left is not known.
    pub(crate) fn finish(&self, turn: &mut Turn) {
        turn.ended = true;
        self.queue.with(|queue, now| {
            queue.finish(&turn.token, now, |known| known.history = None);
        });
    }

    /// The history of a turn is about to grow: nobody else may hold it, or it would have to be copied.
    pub(crate) fn release_history(&self, instance_id: &str) {
        let key = instance_id.to_owned();
        self.queue
            .with(|queue, now| queue.correct(&key, now, |known| known.history = None));
    }

    /// The turn is committed; `left` is the instance as it is now.
    pub(crate) fn finish_committed(
        &self,
        turn: &mut Turn,
        left: Option<CachedInstance>,
        execution: u64,
    ) {
        turn.ended = true;
        self.queue.with(|queue, now| {
            queue.finish(&turn.token, now, |known| {
                known.history = None;
                known.execution = (execution > 1).then_some(execution);
                known.set_cached(left.map(Arc::new));
            });
        });
    }

    /// The turn is committed, and its commit has locked the instance for the next one.
    pub(crate) fn finish_with_next(&self, turn: &mut Turn, next: Turn) {
        turn.ended = true;
        let execution = next.instance.document.current_execution_id;
        let history = next
            .history
            .as_ref()
            .ok()
            .map(|history| history.events.clone());
        let messages = next.messages.clone();
        let won = self.won(next);
        self.queue.with(|queue, now| {
            queue.finish_prelocked(&turn.token, won, now, |known| {
                known.take(&messages);
                known.history = history;
                known.execution = (execution > 1).then_some(execution);
            });
        });
    }

    /// A committed turn has consumed these messages.
    pub(crate) fn consumed(&self, instance_id: &str, messages: &[Message]) {
        let key = instance_id.to_owned();
        // A poll may have found them while the turn was under way.
        self.queue
            .with(|queue, now| queue.correct(&key, now, |known| known.take(messages)));
        let now = Instant::now();
        // Valid between any two statements, so a panic elsewhere does not spoil it.
        let mut consumed = self.consumed.lock().unwrap_or_else(PoisonError::into_inner);
        for message in messages {
            if consumed.at.insert(message.id().clone(), now).is_none() {
                consumed.order.push_back(message.id().clone());
            }
        }
        while consumed.order.len() > CONSUMED {
            if let Some(oldest) = consumed.order.pop_front() {
                consumed.at.remove(&oldest);
            }
        }
    }

    /// Whether a message was consumed after it was seen. One that is seen later was sent again after a lost answer.
    fn is_consumed(&self, message: &Message) -> bool {
        let consumed = self.consumed.lock().unwrap_or_else(PoisonError::into_inner);
        let at = consumed.at.get(message.id());
        at.is_some_and(|at| message.seen_at <= *at)
    }

    /// The messages of an instance that a turn could take beside its own.
    pub(crate) fn due_messages(&self, instance_id: &str, read_at: Option<Instant>) -> Vec<Message> {
        let now = Instant::now().into_std();
        let due = self.read(instance_id, |known| Some(known.due_messages(now, read_at)));
        due.unwrap_or_default()
    }

    /// What is known of the messages of an instance may be wrong.
    pub(crate) fn forget_messages(&self, instance_id: &str) {
        let key = instance_id.to_owned();
        self.queue
            .with(|queue, now| queue.correct(&key, now, KnownInstance::forget_messages));
    }

    /// How long an instance is left alone if it cannot be worked on now.
    pub(crate) fn pause_of(&self, instance_id: &str) -> Duration {
        let pause = self.read(instance_id, |known| Some(known.next_pause()));
        pause.unwrap_or(FIRST_PAUSE)
    }

    /// Whether an instance could not be worked on before, and whether it is cached.
    pub(crate) fn preference(&self, instance_id: &str) -> (bool, bool) {
        let both = self.read(instance_id, |known| {
            Some((known.is_unfit(), known.cached().is_some()))
        });
        both.unwrap_or_default()
    }

    /// What a dispatcher asks for.
    pub(crate) fn ask(
        lock_timeout: Duration,
        long_poll: bool,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Ask<Option<DispatcherCapabilityFilter>> {
        Ask {
            who: filter.cloned(),
            lock_timeout,
            long_poll,
        }
    }
}
