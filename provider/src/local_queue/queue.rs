//! The state machine of a queue: slots, the order of ready slots, and timers.
//!
//! Every change of a slot ends in [`Queue::place`], which derives from the slot alone whether it is
//! ready, when its timer fires, and whether it can be evicted. So no transition can forget to wake
//! a dispatcher.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Instant;

use super::claim::Held;
use super::dispatcher::Dispatchers;
use super::pace::Pace;
use super::poll::Polls;
use super::slot::{Memory, Phase, Rank, Slot, Work};

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
    pub(super) held: HashMap<String, Held<W>>,
    pub(super) ready: BTreeMap<Rank, W::Key>,
    pub(super) timers: BTreeMap<(Instant, u64), W::Key>,
    /// The timers of waiting slots with pending messages.
    pub(super) holding: BTreeMap<(Instant, u64), W::Key>,
    /// Idle slots without a timer, which only save requests, least recently used first.
    pub(super) idle: BTreeMap<u64, W::Key>,
    /// Slots whose pending messages come from polls.
    pub(super) polled: HashSet<W::Key>,
    pub(super) releasing: BTreeSet<W::Key>,
    pub(super) dispatchers: Dispatchers<W>,
    pub(super) polls: Polls,
    pub(super) memory: Memory,
    pub(super) limits: Limits,
    /// Dropped state, freed once the queue's mutex is released.
    pub(super) garbage: Vec<W::Known>,
    pub(super) sequence: u64,
}

impl<W: Work> Queue<W> {
    pub(crate) fn new(pace: Pace, limits: Limits) -> Self {
        Self {
            slots: HashMap::new(),
            held: HashMap::new(),
            ready: BTreeMap::new(),
            timers: BTreeMap::new(),
            holding: BTreeMap::new(),
            idle: BTreeMap::new(),
            polled: HashSet::new(),
            releasing: BTreeSet::new(),
            dispatchers: Dispatchers::default(),
            polls: Polls::new(pace),
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

    /// Notes a fact that this process learned about an item without a poll. A backoff continues.
    pub(crate) fn learn(&mut self, key: &W::Key, now: Instant, learn: impl FnOnce(&mut W::Known)) {
        self.edit(key, learn);
        self.set_polled(key, None);
        self.polls.pace.busy(now);
        self.place(key, now);
        self.shrink(now);
        // The next timer or poll may be due earlier than the dispatchers expect.
        self.nudge();
    }

    /// Notes a fact about an item like [`learn`](Self::learn), and ends its backoff.
    pub(crate) fn learn_and_recheck(
        &mut self,
        key: &W::Key,
        now: Instant,
        learn: impl FnOnce(&mut W::Known),
    ) {
        self.end_backoff(key);
        self.learn(key, now, learn);
    }

    /// Ends a backoff. The caller must place the item afterwards.
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
            self.place(key, now);
            self.shrink(now);
        }
    }

    /// Takes the dispatchers that are to be woken.
    pub(super) fn take_woken(&mut self) -> Vec<u64> {
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
            self.place(&key, now);
            is_changed = true;
        }
        if is_changed {
            self.shrink(now);
        }
        self.timers.keys().next().map(|(at, _)| *at)
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

    /// Places a slot at `now` among the ready, timed and idle slots.
    pub(super) fn place(&mut self, key: &W::Key, now: Instant) {
        self.end_phase(key, now);
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        let class = slot.offer(now).map(|(class, _)| class);
        if slot.rank.map(|rank| rank.0) != class {
            if let Some(rank) = slot.rank.take() {
                self.ready.remove(&rank);
            }
            if let Some(class) = class {
                self.sequence += 1;
                let rank = Rank(class, self.sequence);
                slot.rank = Some(rank);
                self.ready.insert(rank, key.clone());
            }
        }
        let wakes_at = slot.wakes_at(now);
        if slot.timer.map(|(at, _)| at) != wakes_at {
            if let Some(timer) = slot.timer.take() {
                self.timers.remove(&timer);
            }
            if let Some(at) = wakes_at {
                self.sequence += 1;
                slot.timer = Some((at, self.sequence));
                self.timers.insert((at, self.sequence), key.clone());
            }
        }
        self.place_holding(key);
        self.place_idle(key);
        if class.is_some() {
            self.wake(now);
        }
    }

    /// Lists a waiting slot with pending messages, so that they can be evicted.
    fn place_holding(&mut self, key: &W::Key) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        let holds = !slot.phase.is_busy() && W::memory(&slot.known).pending > 0;
        let timer = slot.timer.filter(|_| holds);
        if slot.holding == timer {
            return;
        }
        if let Some(old) = std::mem::replace(&mut slot.holding, timer) {
            self.holding.remove(&old);
        }
        if let Some(timer) = timer {
            self.holding.insert(timer, key.clone());
        }
    }

    /// Lists a slot without a timer as idle, or removes it when nothing is known of its item.
    fn place_idle(&mut self, key: &W::Key) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        let is_idle = matches!(slot.phase, Phase::Idle) && slot.rank.is_none();
        let is_listed = is_idle && (slot.timer.is_none() || W::memory(&slot.known).cached > 0);
        match (is_listed, slot.idle) {
            (true, None) => {
                self.sequence += 1;
                slot.idle = Some(self.sequence);
                self.idle.insert(self.sequence, key.clone());
            }
            (false, Some(at)) => {
                slot.idle = None;
                self.idle.remove(&at);
            }
            _ => {}
        }
        if is_idle && slot.timer.is_none() && W::is_forgettable(&slot.known) {
            self.remove(key);
        }
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
        if matches!(phase, Phase::Backoff { .. }) {
            return;
        }
        if let Phase::Running { token, .. } = &phase {
            self.end(token, now);
        }
        self.edit(key, |known| W::expire(known, now));
    }

    /// Removes a slot with all that is known of its item.
    pub(super) fn remove(&mut self, key: &W::Key) {
        let Some(slot) = self.slots.remove(key) else {
            return;
        };
        let memory = W::memory(&slot.known);
        self.memory.pending -= memory.pending;
        self.memory.cached -= memory.cached;
        if let Some(rank) = slot.rank {
            self.ready.remove(&rank);
        }
        if let Some(timer) = slot.timer {
            self.timers.remove(&timer);
        }
        if let Some(holding) = slot.holding {
            self.holding.remove(&holding);
        }
        if let Some(idle) = slot.idle {
            self.idle.remove(&idle);
        }
        self.polled.remove(key);
        self.garbage.push(slot.known);
    }
}
