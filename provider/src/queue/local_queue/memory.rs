//! The memory limits of a queue.
//!
//! Eviction costs requests, but loses no item: a due item stays due and is read from the store.

use std::time::Instant;

use super::queue::{Queue, put};
use super::slot::{Phase, Work};

impl<W: Work> Queue<W> {
    /// Evicts what exceeds the limits: the least recently used cached items, and the pending
    /// messages that are due last.
    pub(super) fn shrink(&mut self, now: Instant) {
        while self.memory.cached > self.limits.memory.cached || self.slots.len() > self.limits.slots
        {
            if let Some(key) = self.idle.values().next().cloned() {
                self.evict(&key);
            } else if let Some(key) = self.last_waiting() {
                self.remove(&key);
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
    fn evict(&mut self, key: &W::Key) {
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
            self.remove(key);
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
            slot.is_some_and(|slot| matches!(slot.phase, Phase::Idle))
        };
        let is_too_many = self.slots.len() > self.limits.slots;
        waiting.find(is_idle).filter(|_| is_too_many).cloned()
    }
}
