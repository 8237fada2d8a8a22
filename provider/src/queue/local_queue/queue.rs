//! The state machine of a queue: slots, the order of ready slots, and timers.
//!
//! Every change of a slot ends in [`Queue::rank`], which derives from the slot alone whether it is
//! ready, when its timer fires, and whether it can be evicted. So no transition can forget to wake
//! a dispatcher.
//!
//! Eviction keeps the memory limits. It costs requests, but loses no item: a due item stays due and is
//! read from the store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

use super::claim::FetchedItem;
use super::dispatcher::Dispatchers;
use super::limiter::Limiter;
use super::pace::Pace;
use super::slot::{Behind, Entry, Memory, Phase, PollNumber, Rank, Slot, Work};

/// The limits of a queue's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) memory: Memory,
    pub(crate) slots: usize,
}

/// The slots of a queue and its waiting dispatchers. Methods take the time; none of them waits or
/// sends requests.
#[derive(Debug)]
pub(crate) struct Queue<W: Work> {
    pub(super) slots: HashMap<W::Key, Slot<W>>,
    /// The items that the runtime is processing, by lock token.
    pub(super) fetched: HashMap<String, FetchedItem<W>>,
    pub(super) ready: Order<Rank, W::Key>,
    pub(super) timers: Order<Instant, W::Key>,
    /// Waiting and ready slots with pending messages, which can be evicted, by the time when they
    /// are due.
    pub(super) holding: Order<Instant, W::Key>,
    /// Idle slots without a timer, which only save requests, least recently used first.
    pub(super) idle: Order<(), W::Key>,
    /// Slots whose pending messages come from polls, by the last poll that found them.
    pub(super) polled: Order<PollNumber, W::Key>,
    pub(super) releasing: BTreeSet<W::Key>,
    pub(super) limiter: Limiter<W::Key>,
    /// Wakes the task that sends the requests of limits.
    pub(super) permits_wanted: Arc<Notify>,
    pub(super) dispatchers: Dispatchers<W>,
    pub(super) pace: Pace,
    /// Whether the background poll runs, which serves all dispatchers.
    pub(super) is_polling: bool,
    pub(super) last_poll: PollNumber,
    /// The begin of the last background poll, and of the last one for all items.
    pub(super) last_poll_at: Option<Instant>,
    pub(super) last_whole_poll_at: Option<Instant>,
    pub(super) memory: Memory,
    pub(super) limits: Limits,
    /// Dropped state, freed once the queue's mutex is released.
    pub(super) garbage: Vec<W::Known>,
    pub(super) sequence: u64,
}

impl<W: Work> Queue<W> {
    pub(crate) fn new(pace: Pace, limits: Limits, limiter: Limiter<W::Key>) -> Self {
        Self {
            slots: HashMap::new(),
            fetched: HashMap::new(),
            ready: BTreeMap::new(),
            timers: BTreeMap::new(),
            holding: BTreeMap::new(),
            idle: BTreeMap::new(),
            polled: BTreeMap::new(),
            releasing: BTreeSet::new(),
            limiter,
            permits_wanted: Arc::default(),
            dispatchers: Dispatchers::default(),
            pace,
            is_polling: false,
            last_poll: 0,
            last_poll_at: None,
            last_whole_poll_at: None,
            memory: Memory::default(),
            limits,
            garbage: Vec::new(),
            sequence: 0,
        }
    }

    /// Returns the known state of an item; `None` if the item is unknown.
    pub(crate) fn known(&self, key: &W::Key) -> Option<&W::Known> {
        self.slots.get(key).map(|slot| &slot.known)
    }

    /// Returns whether this process is processing or claiming an item.
    pub(crate) fn is_busy(&self, key: &W::Key) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.phase.is_busy())
    }

    /// Returns whether an item is in backoff at `now`.
    pub(crate) fn is_backed_off(&self, key: &W::Key, now: Instant) -> bool {
        let slot = self.slots.get(key);
        slot.is_some_and(|slot| matches!(slot.phase, Phase::Backoff { until } if until > now))
    }

    /// Returns how the item for which a dispatcher is at work was behind others when it was taken.
    pub(crate) fn taken_from(&self, key: &W::Key) -> Option<Behind> {
        self.dispatchers.behind.get(key).copied()
    }

    /// Notes a fact that this process learned about an item without a poll. A backoff continues.
    pub(crate) fn learn(&mut self, key: &W::Key, now: Instant, learn: impl FnOnce(&mut W::Known)) {
        self.edit(key, learn);
        self.set_polled(key, None);
        self.pace.busy(now);
        self.rank(key, now);
        self.shrink(now);
        // The next timer or poll may be due earlier than the dispatchers expect.
        self.nudge();
    }

    /// Ends a backoff. The caller must rank the item afterwards.
    pub(crate) fn end_backoff(&mut self, key: &W::Key) {
        if let Some(slot) = self.slots.get_mut(key)
            && matches!(slot.phase, Phase::Backoff { .. })
        {
            slot.phase = Phase::Idle;
        }
    }

    /// Corrects the state of a known item.
    pub(crate) fn correct(
        &mut self,
        key: &W::Key,
        now: Instant,
        correct: impl FnOnce(&mut W::Known),
    ) {
        if self.slots.contains_key(key) {
            self.edit(key, correct);
            self.rank(key, now);
            self.shrink(now);
        }
    }

    /// Takes the handles of the dispatchers that are to be woken.
    pub(super) fn take_woken(&mut self) -> Vec<Arc<Notify>> {
        std::mem::take(&mut self.dispatchers.to_wake)
    }

    /// Takes the dropped state that is to be freed.
    pub(super) fn take_garbage(&mut self) -> Vec<W::Known> {
        std::mem::take(&mut self.garbage)
    }

    /// Ends the phases whose time has come. Returns the time of the next timer.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Instant> {
        let mut is_changed = false;
        while let Some((&(at, _), key)) = self.timers.first_key_value() {
            if at > now {
                break;
            }
            let key = key.clone();
            self.rank(&key, now);
            is_changed = true;
        }
        if is_changed {
            self.shrink(now);
        }
        self.limiter.tick(now);
        self.react();
        let timer = self.timers.keys().next().map(|(at, _)| *at);
        timer.into_iter().chain(self.limiter.next_start()).min()
    }

    /// Changes the known state of an item, and accounts for its memory.
    pub(super) fn edit(&mut self, key: &W::Key, edit: impl FnOnce(&mut W::Known)) {
        let slot = self.slots.entry(key.clone()).or_default();
        let before = W::memory(&slot.known);
        edit(&mut slot.known);
        let after = W::memory(&slot.known);
        self.memory.pending = self.memory.pending + after.pending - before.pending;
        self.memory.cached = self.memory.cached + after.cached - before.cached;
    }

    /// Ranks a slot at `now` in every order that it belongs to, and removes it when nothing is
    /// known of its item.
    pub(super) fn rank(&mut self, key: &W::Key, now: Instant) {
        self.end_phase(key, now);
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if !slot.phase.is_at_work() {
            self.dispatchers.behind.remove(key);
        }
        let last = &mut self.sequence;
        let memory = W::memory(&slot.known);
        // Only what a dispatcher of this process takes waits for permits.
        let mut kinds = self.dispatchers.kinds.iter();
        let waits_in_vain =
            slot.is_limited() && !slot.counts() && !kinds.any(|kind| W::suits(kind, &slot.known));
        let class = slot.offer(now).map(|(class, _)| class);
        let class = class.filter(|_| !waits_in_vain);
        let rank = slot.limit(&mut self.limiter, class, key, last, now);
        put(&mut self.ready, &mut slot.rank, rank, key, last);
        let wakes_at = slot.wakes_at(now);
        put(&mut self.timers, &mut slot.timer, wakes_at, key, last);
        let is_holding = !slot.phase.is_busy() && memory.pending > 0;
        let due = W::due(&slot.known).filter(|_| is_holding);
        put(&mut self.holding, &mut slot.holding, due, key, last);
        let is_idle = matches!(slot.phase, Phase::Idle) && rank.is_none() && !slot.is_reserved();
        let is_evictable = is_idle && (wakes_at.is_none() || memory.cached > 0);
        let idle = is_evictable.then_some(());
        put(&mut self.idle, &mut slot.idle, idle, key, last);
        if is_idle && wakes_at.is_none() && W::is_forgettable(&slot.known) {
            self.remove(key, now);
        }
        if rank.is_some() || self.limiter.has_waiting() {
            self.wake(now);
        }
        self.react();
    }

    /// Ends the phase of a slot if its time has come.
    fn end_phase(&mut self, key: &W::Key, now: Instant) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if slot.phase.until().is_none_or(|until| until > now) {
            return;
        }
        let phase = std::mem::replace(&mut slot.phase, Phase::Idle);
        if matches!(phase, Phase::Backoff { .. } | Phase::Behind { .. }) {
            return;
        }
        if let Phase::Running { token, .. } = &phase {
            self.end(token, now);
        }
        self.edit(key, |known| W::expire(known, now));
    }

    /// Removes a slot with all that is known of its item.
    pub(super) fn remove(&mut self, key: &W::Key, now: Instant) {
        let Some(mut slot) = self.slots.remove(key) else {
            return;
        };
        if let Some(selected) = slot.selected.clone() {
            slot.leave(&mut self.limiter, &selected, now);
        }
        let last = &mut self.sequence;
        let memory = W::memory(&slot.known);
        self.memory.pending -= memory.pending;
        self.memory.cached -= memory.cached;
        put(&mut self.ready, &mut slot.rank, None, key, last);
        put(&mut self.timers, &mut slot.timer, None, key, last);
        put(&mut self.holding, &mut slot.holding, None, key, last);
        put(&mut self.idle, &mut slot.idle, None, key, last);
        put(&mut self.polled, &mut slot.polled, None, key, last);
        self.garbage.push(slot.known);
    }
}

/// Slots by position. Those of one position are in the order of their arrival.
pub(super) type Order<P, K> = BTreeMap<Entry<P>, K>;

/// Puts a slot at a position of an order, or removes it. Keeps an `entry` with this position.
pub(super) fn put<P: Copy + Ord, K: Clone>(
    order: &mut Order<P, K>,
    entry: &mut Option<Entry<P>>,
    position: Option<P>,
    key: &K,
    sequence: &mut u64,
) {
    if entry.map(|(position, _)| position) == position {
        return;
    }
    if let Some(old) = entry.take() {
        order.remove(&old);
    }
    if let Some(position) = position {
        *sequence += 1;
        *entry = Some((position, *sequence));
        order.insert((position, *sequence), key.clone());
    }
}

impl<W: Work> Queue<W> {
    /// Evicts what exceeds the limits: the least recently used cached items, and the pending
    /// messages that are due last.
    pub(super) fn shrink(&mut self, now: Instant) {
        while self.memory.cached > self.limits.memory.cached || self.slots.len() > self.limits.slots
        {
            if let Some(key) = self.idle.values().next().cloned() {
                self.evict(&key, now);
            } else if let Some(key) = self.last_waiting() {
                self.remove(&key, now);
            } else {
                break;
            }
        }
        while self.memory.pending > self.limits.memory.pending {
            let Some(key) = self.holding.values().next_back().cloned() else {
                break;
            };
            let mut evicted = None;
            self.edit(&key, |known| evicted = Some(W::evict_pending(known, now)));
            self.garbage.extend(evicted);
            self.rank(&key, now);
        }
    }

    /// Evicts an idle slot. A slot with a timer keeps its pending messages.
    fn evict(&mut self, key: &W::Key, now: Instant) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        put(
            &mut self.idle,
            &mut slot.idle,
            None,
            key,
            &mut self.sequence,
        );
        if slot.timer.is_none() {
            self.remove(key, now);
            return;
        }
        let mut evicted = None;
        self.edit(key, |known| evicted = Some(W::evict_cache(known)));
        self.garbage.extend(evicted);
    }

    /// Returns the item that is due last, or the last ready one, if there are too many items. A
    /// poll finds it when it is due.
    fn last_waiting(&self) -> Option<W::Key> {
        let mut waiting = self.timers.values().rev().chain(self.ready.values().rev());
        let is_idle = |key: &&W::Key| {
            let slot = self.slots.get(*key);
            slot.is_some_and(|slot| {
                matches!(slot.phase, Phase::Idle | Phase::Behind { .. }) && !slot.is_reserved()
            })
        };
        let is_too_many = self.slots.len() > self.limits.slots;
        waiting.find(is_idle).filter(|_| is_too_many).cloned()
    }
}
