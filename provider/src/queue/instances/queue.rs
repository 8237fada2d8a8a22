//! The local queue of instances: those with messages, those that are cached, those with a running
//! turn.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cdb_coordination::search::Runs;
use cdb_model::Timestamp;
use cdb_model::value::ItemId;
use duroxide::Event;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::attempt::{Arrived, Attempt};
use super::cache::CachedInstance;
use super::known::{Instances, KnownInstance};
use super::message::{MAX_MESSAGES, Message, Parent, sort};
use super::reservations::Reservations;
use super::room::Room;
use super::turn::{Left, Turn};
use super::unfit::Readiness;
use crate::config::CosmosDBProviderConfig;
use crate::queue::local_queue::{Guard, LocalQueue, PollNumber, Won, Work as _};
use crate::stored::Store;
use crate::stored::documents::{Labels, Rule};
use crate::timing::{MESSAGE_KEPT, MIN_UNFIT_BACKOFF};

/// The number of consumed messages that are remembered, so that a poll answered before their commit
/// does not bring them back.
const MAX_CONSUMED: usize = 16_384;

/// The number of paused instances that are remembered. Beyond it the set is cleared, and the next
/// message for each loads its instance.
const MAX_PAUSED: usize = 16_384;

/// The instances with messages, for the dispatchers of this process.
pub(crate) struct InstanceQueue {
    queue: LocalQueue<Instances>,
    consumed: Mutex<Consumed>,
    store: Store,
    /// Whether rules order the turns, so that their labels are needed.
    is_ordered: AtomicBool,
    /// The instances that were paused when this process read them last.
    paused: Mutex<HashSet<String>>,
    /// The end of the last pause of an instance that leaves due messages in the store.
    leaves_until: Mutex<Option<std::time::Instant>>,
    reservations: Reservations,
}

/// The consumed messages of this process's turns, and the times of their commits.
#[derive(Debug, Default)]
struct Consumed {
    at: HashMap<ItemId, Instant>,
    order: VecDeque<ItemId>,
}

impl InstanceQueue {
    pub(crate) fn new(store: Store, config: &CosmosDBProviderConfig) -> Self {
        let cached = usize::try_from(config.history_cache_bytes).unwrap_or(usize::MAX);
        Self {
            queue: LocalQueue::new(config, config.orch_concurrency, cached),
            consumed: Mutex::default(),
            store,
            is_ordered: AtomicBool::new(false),
            paused: Mutex::default(),
            leaves_until: Mutex::default(),
            reservations: Reservations::default(),
        }
    }

    /// Applies the rules of a container to the order of turns.
    pub(crate) fn set_rules(&self, rules: &[Rule], version: i64) {
        let rules: Vec<_> = rules.iter().filter_map(Rule::of_turns).collect();
        self.is_ordered.store(!rules.is_empty(), Ordering::Relaxed);
        let unlabelled = self.queue.with(|queue, _| queue.unlabelled());
        let labels = unlabelled.into_iter();
        let labels: Vec<_> = labels
            .filter_map(|id| Some((self.labels_of(&id)?, id)))
            .collect();
        self.queue.with(|queue, now| {
            for (labels, id) in labels {
                if queue.known(&id).is_some() {
                    queue.label(&id, || labels);
                }
            }
            queue.set_rules(rules, version, now);
        });
    }

    /// Logs which rules select by labels that this program does not derive: none of its activities keeps to them.
    pub(crate) fn warn_of_unknown_labels(&self, rules: &[Rule]) {
        for rule in rules {
            for label in self.store.labels.unknown_to(rule) {
                tracing::warn!(
                    limit = %rule.select, label,
                    "a limit selects by a label that is not in `CosmosDBProviderConfig::labels`"
                );
            }
        }
    }

    /// Returns the labels of an instance id, if rules need them. Calls functions of the program, so
    /// it must not be called under the mutex of the queue.
    fn labels_of(&self, instance_id: &str) -> Option<Labels> {
        let is_ordered = self.is_ordered.load(Ordering::Relaxed);
        is_ordered.then(|| Labels::of_instance(self.store.labels.of(instance_id)))
    }

    /// Returns the state machine, for fetches and polls.
    pub(crate) fn local(&self) -> &LocalQueue<Instances> {
        &self.queue
    }

    /// Notes a pending message that this process has queued or released.
    pub(crate) fn note_message(&self, message: Message) {
        let document = &message.stored.document;
        let after = document.due_at().since(self.store.now());
        if after > MESSAGE_KEPT || self.is_consumed(&message) {
            return;
        }
        let instance_id = document.instance_id.clone();
        let labels = self.labels_of(&instance_id);
        self.queue.with(|queue, now| {
            if let Some(labels) = labels {
                queue.label(&instance_id, || labels);
            }
            let known = queue.known(&instance_id);
            // The instance may wait for a start, or for a cancellation. Any other message is tried after
            // the next poll, or each of a thousand early ones would read all before it.
            let ends_backoff = known.is_some_and(|known| known.waits_for(message.kind()));
            if ends_backoff {
                queue.end_backoff(&instance_id);
            }
            queue.learn(&instance_id, now, |known| {
                if ends_backoff {
                    known.clear_unfit();
                }
                known.note(message, now + after, Some(now));
            });
        });
    }

    /// Notes that an instance may have messages that are due at a time, so that its partition is searched
    /// then.
    pub(crate) fn recheck(&self, instance_id: &str, execution: Option<u64>, due_at: Timestamp) {
        let after = due_at.since(self.store.now());
        if after > MESSAGE_KEPT {
            return;
        }
        let key = instance_id.to_owned();
        let labels = self.labels_of(instance_id);
        self.queue.with(|queue, now| {
            if let Some(labels) = labels {
                queue.label(&key, || labels);
            }
            queue.learn(&key, now, |known| {
                known.search(now + after);
                known.execution = execution.filter(|number| *number > 1).or(known.execution);
            });
        });
    }

    /// Notes a message that a poll for `enough` messages has found. Returns its classification, and
    /// whether it counts as one that can run.
    pub(crate) fn found(
        &self,
        poll: PollNumber,
        enough: u32,
        message: Message,
    ) -> (Readiness, Runs) {
        if self.is_consumed(&message) {
            return (Readiness::NotNow, Runs::NotNow);
        }
        let document = &message.stored.document;
        let (visible_at, execution) = (document.visible_at, document.execution_id);
        let after = document.due_at().since(self.store.now());
        let instance_id = document.instance_id.clone();
        let kind = message.kind();
        let labels = self.labels_of(&instance_id);
        self.queue.with(|queue, now| {
            let is_backed_off = queue.is_backed_off(&instance_id, now);
            let is_busy = queue.is_busy(&instance_id);
            let mut readiness = Readiness::NotNow;
            queue.learn_from_poll(poll, &instance_id, |known| {
                let has_room = !known.has_no_room(message.queue());
                if !is_busy && !known.is_locked_elsewhere() && has_room {
                    readiness = known.classify(visible_at, kind, is_backed_off);
                }
                if readiness != Readiness::Backoff {
                    known.execution = execution.filter(|number| *number > 1).or(known.execution);
                    known.note(message, now + after, None);
                }
            });
            if let Some(labels) = labels {
                queue.label(&instance_id, || labels);
            }
            if readiness != Readiness::Ready {
                return (readiness, Runs::NotNow);
            }
            if is_backed_off {
                queue.end_backoff(&instance_id);
            }
            (readiness, queue.polled(&instance_id, poll, enough))
        })
    }

    /// Reads a part of an instance's known state; `None` when the instance is unknown.
    pub(crate) fn read<R>(
        &self,
        instance_id: &str,
        read: impl FnOnce(&KnownInstance) -> Option<R>,
    ) -> Option<R> {
        let key = instance_id.to_owned();
        self.queue.with(|queue, _| queue.known(&key).and_then(read))
    }

    /// Returns the known history of an instance; `None` when it is unknown.
    pub(crate) fn history(&self, instance_id: &str) -> Option<Arc<Vec<Event>>> {
        self.read(instance_id, |known| {
            let cached = known
                .cached
                .as_ref()
                .map(|cached| cached.history.events.clone());
            cached.or_else(|| known.history.clone())
        })
    }

    /// Returns the newest known execution of an instance. The value is a hint.
    pub(crate) fn newest_execution(&self, instance_id: &str) -> u64 {
        self.read(instance_id, |known| known.execution).unwrap_or(1)
    }

    /// Returns whether a turn of the instance is running in this process, or has left it cached.
    /// New messages for such an instance are reserved for this process.
    pub(crate) fn is_local(&self, instance_id: &str) -> bool {
        let key = instance_id.to_owned();
        self.queue.with(|queue, _| {
            let known = queue.known(&key);
            queue.is_busy(&key) || known.is_some_and(|known| known.cached.as_ref().is_some())
        })
    }

    /// Returns whether dispatchers of this process are waiting or working.
    pub(crate) fn has_dispatchers(&self) -> bool {
        let load = self.queue.with(|queue, _| queue.load());
        load.waiting + load.working > 0
    }

    pub(crate) fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// Adds messages to a turn that arrived after its lock was taken.
    pub(crate) fn merge_late(&self, turn: &mut Turn) {
        let Ok(history) = &turn.history else { return };
        // Late messages must not pass others that the turn leaves.
        if turn.left.has_some() {
            return;
        }
        let (read_at, now) = (history.read_at, Instant::now().into_std());
        let due = self.read(&turn.instance.document.instance_id, |known| {
            Some(known.late_messages(now, read_at))
        });
        let taken = turn.messages.clone();
        let mut room = None;
        for late in &due.unwrap_or_default() {
            // The next attempt deletes it.
            let instance = Some(&turn.instance.document);
            if late.is_of_another_parent(Parent::of(instance, &taken))
                || late.is_of_earlier_life(instance)
            {
                continue;
            }
            let is_new = taken.iter().all(|message| message.id() != late.id());
            let mut has_room = |queue| {
                let room = room.get_or_insert_with(|| Room::after(&history.events, &taken));
                room.admits(queue)
            };
            if is_new
                && turn.messages.len() < MAX_MESSAGES
                && late.queue().is_none_or(&mut has_room)
            {
                turn.messages.push(late.clone());
            }
        }
        // A late one may be older than those of other processes. Of a held instance, cancellations come first.
        if turn.instance.document.held.is_none() {
            sort(&mut turn.messages);
        }
    }

    /// Hands a turn to the runtime. Returns the turn if its lock has expired.
    #[must_use = "an expired lock is released"]
    pub(crate) fn hand_out(&self, guard: Guard<'_, Instances>, mut turn: Turn) -> Option<Turn> {
        let caller = turn.caller;
        let execution = turn.instance.document.current_execution_id;
        let history = turn.events();
        let messages = turn.messages.clone();
        let left = std::mem::replace(&mut turn.left, Left::AsKnown);
        let now = Instant::now().into_std();
        let until = turn.instance.document.locked_until.unwrap_or_default();
        let won = Won {
            token: turn.token.clone(),
            until: self.store.local_time(until),
            lock: turn,
        };
        guard.hand_out(won, caller, |known| {
            known.cached = None;
            // Whether the code can execute the turn is known at its end. The backoff goes on until then.
            if !known.is_for_other_code() {
                known.clear_unfit();
            }
            known.forget_holder();
            known.taken(&messages, left, now);
            known.execution = (execution > 1).then_some(execution);
            // The first turn has no history; its commit schedules the activities that need one.
            known.history = history.filter(|events| !events.is_empty());
        })
    }

    /// Ends a turn whose result is unknown.
    pub(crate) fn finish(&self, turn: &mut Turn) {
        self.end(turn, |known| known.history = None);
    }

    fn end(&self, turn: &mut Turn, learn: impl FnOnce(&mut KnownInstance)) {
        turn.ended = true;
        turn.give_up_unstored();
        self.queue
            .with(|queue, now| queue.finish(&turn.token, now, learn));
    }

    /// Corrects what is known of an instance.
    pub(crate) fn correct(&self, instance_id: &str, correct: impl FnOnce(&mut KnownInstance)) {
        let key = instance_id.to_owned();
        self.queue
            .with(|queue, now| queue.correct(&key, now, correct));
    }

    /// Ends a turn that the code of this process cannot execute. The next attempt is after a backoff,
    /// or when the instance is cancelled. Its messages stay queued.
    pub(crate) fn finish_for_other_code(&self, turn: &mut Turn) {
        turn.ended = true;
        turn.give_up_unstored();
        let times = turn.messages.iter();
        let times = times.map(|message| message.stored.document.visible_at);
        let newest = times.max().unwrap_or_default();
        let instance_id = &turn.instance.document.instance_id;
        let pause = self.read(instance_id, |known| Some(known.next_backoff()));
        self.queue.with(|queue, now| {
            let until = now + pause.unwrap_or(MIN_UNFIT_BACKOFF);
            let mut last = self.leaves_until.lock();
            *last = Some(last.map_or(until, |last| last.max(until)));
            drop(last);
            queue.finish_unable(&turn.token, until, now, |known| {
                known.history = None;
                known.forget_messages();
                known.mark_for_other_code(newest);
                known.search(until);
            });
        });
    }

    /// Ends an attempt at an instance that has only queued events to receive, and no room for them.
    pub(crate) fn finish_full(
        &self,
        guard: Guard<'_, Instances>,
        attempt: &Attempt,
        queues: BTreeSet<String>,
        left: Left,
    ) {
        guard.release(|known| {
            known.mark_full(attempt, queues, left);
            let mut last = self.leaves_until.lock();
            *last = (*last).max(Instances::due(known));
        });
    }

    /// Notes the messages that have come since all were known. Returns what is known then.
    pub(crate) fn arrived(&self, instance_id: &str, arrived: Option<Arrived>) -> Option<Attempt> {
        let key = instance_id.to_owned();
        self.queue.with(|queue, now| {
            queue.correct(&key, now, |known| known.arrived(arrived, now));
            let known = queue.known(&key)?;
            Some(Instances::attempt(known, now))
        })
    }

    /// Returns whether instances may leave due messages in the store: their executions have no room
    /// for them, or the code of this process cannot execute them.
    pub(crate) fn leaves_some(&self) -> bool {
        let until = *self.leaves_until.lock();
        until.is_some_and(|until| until > Instant::now().into_std())
    }

    /// Returns whether an instance leaves a due message in the store for now. A poll for the message
    /// would find nothing to do.
    pub(crate) fn leaves_stored(&self, message: &Message) -> bool {
        let document = &message.stored.document;
        self.queue.with(|queue, now| {
            let is_backed_off = queue.is_backed_off(&document.instance_id, now);
            let known = queue.known(&document.instance_id);
            known.is_some_and(|known| {
                known.has_no_room(message.queue())
                    || known.leaves_stored(document.visible_at, message.kind(), is_backed_off)
            })
        })
    }

    /// Ends a committed turn. `left` is the cached instance, if it is known.
    pub(crate) fn finish_committed(
        &self,
        turn: &mut Turn,
        left: Option<CachedInstance>,
        execution: u64,
    ) {
        self.end(turn, |known| {
            known.committed();
            known.execution = (execution > 1).then_some(execution);
            known.cached = left.map(Arc::new);
        });
    }

    /// Notes the messages that a committed turn has consumed.
    pub(crate) fn consumed(&self, instance_id: &str, messages: &[Message]) {
        // A poll may have found the messages while the turn was running.
        self.correct(instance_id, |known| known.remove_messages(messages));
        let now = Instant::now();
        let mut consumed = self.consumed.lock();
        for message in messages {
            if consumed.at.insert(message.id().clone(), now).is_none() {
                consumed.order.push_back(message.id().clone());
            }
        }
        while consumed.order.len() > MAX_CONSUMED {
            if let Some(oldest) = consumed.order.pop_front() {
                consumed.at.remove(&oldest);
            }
        }
    }

    /// Returns whether a message was consumed after it was seen. A message seen later was sent
    /// again after a lost answer.
    fn is_consumed(&self, message: &Message) -> bool {
        let consumed = self.consumed.lock();
        let at = consumed.at.get(message.id());
        at.is_some_and(|at| message.seen_at <= *at)
    }

    /// Forgets the known messages of an instance, because they may have changed.
    pub(crate) fn forget_messages(&self, instance_id: &str) {
        self.correct(instance_id, KnownInstance::forget_messages);
    }

    /// Ends an attempt at an instance that cannot be processed, considering messages due until
    /// `newest`. Its backoff doubles each time.
    pub(crate) fn back_off_unfit(
        &self,
        guard: Guard<'_, Instances>,
        newest: Timestamp,
        pinned: Option<u64>,
        learn: impl FnOnce(&mut KnownInstance),
    ) {
        let pause = self.read(&guard.claim.key, |known| Some(known.next_backoff()));
        guard.back_off(pause.unwrap_or(MIN_UNFIT_BACKOFF), |known| {
            known.mark_unfit(newest, pinned);
            learn(known);
        });
    }

    /// Notes that an instance is paused.
    pub(crate) fn note_pause(&self, instance_id: &str) {
        let mut paused = self.paused.lock();
        if paused.len() >= MAX_PAUSED {
            paused.clear();
        }
        paused.insert(instance_id.to_owned());
    }

    /// Notes that an instance is not paused.
    pub(crate) fn forget_pause(&self, instance_id: &str) {
        self.paused.lock().remove(instance_id);
    }

    /// Returns whether an instance was paused when this process read it last.
    pub(crate) fn was_paused(&self, instance_id: &str) -> bool {
        self.paused.lock().contains(instance_id)
    }

    /// Returns whether an instance was unfit before, and whether it is cached.
    pub(crate) fn preference(&self, instance_id: &str) -> (bool, bool) {
        let both = self.read(instance_id, |known| {
            Some((known.is_unfit(), known.cached.as_ref().is_some()))
        });
        both.unwrap_or_default()
    }
}
