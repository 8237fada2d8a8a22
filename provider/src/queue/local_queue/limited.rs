//! The limits of a queue's items: what is counted, what is parked, and what becomes ready again.

use std::sync::Arc;
use std::time::Instant;

use cdb_coordination::Runs;
use tokio::sync::Notify;

use super::limiter::{Allowance, Demand, Key};
use super::queue::Queue;
use super::slot::{PollNumber, Slot, Work};
use crate::stored::documents::{Labels, Rule};

/// Whether a batch may lock an item that it creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an item that must not start is not locked"]
pub(crate) enum Reservation {
    /// The item is counted as running.
    Made,
    /// A limit does not let the item start now.
    Refused,
}

/// The limits of the items.
impl<W: Work> Queue<W> {
    /// Replaces the rules, for all known items.
    pub(crate) fn set_rules(&mut self, rules: Vec<Rule>, now: Instant) {
        self.limiter.set_rules(rules);
        for slot in self.slots.values_mut() {
            let labels = slot.labels.as_deref();
            slot.selected = labels.and_then(|labels| self.limiter.select(labels));
            slot.tag = None;
            slot.arrival = None;
            slot.parked = None;
            // What runs is counted before anything is let start.
            slot.is_counted = slot.counts() && slot.selected.is_some();
            if slot.is_counted
                && let Some(selected) = &slot.selected
            {
                self.limiter.count(selected, now);
            }
        }
        let mut keys: Vec<_> = self.slots.iter().collect();
        keys.sort_by_key(|(_, slot)| slot.rank);
        let keys: Vec<_> = keys.into_iter().map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.rank(&key, now);
        }
        self.react(now);
        self.shrink(now);
    }

    /// Notes what rules select an item by. The caller must rank the item afterwards.
    pub(crate) fn label(&mut self, key: &W::Key, labels: impl FnOnce() -> Labels) {
        let slot = self.slots.entry(key.clone()).or_default();
        if slot.labels.is_none() {
            let labels = Arc::new(labels());
            slot.selected = self.limiter.select(&labels);
            slot.labels = Some(labels);
        }
    }

    /// Returns the items without labels.
    pub(crate) fn unlabelled(&self) -> Vec<W::Key> {
        let unlabelled = self.slots.iter().filter(|(_, slot)| slot.labels.is_none());
        unlabelled.map(|(key, _)| key.clone()).collect()
    }

    /// Counts an item as running that a batch will create and lock, if the limits let it start. Each
    /// reservation needs an [`unreserve`](Self::unreserve), once the batch has ended.
    pub(crate) fn reserve(&mut self, key: &W::Key, now: Instant) -> Reservation {
        let Some(slot) = self.slots.get_mut(key) else {
            return Reservation::Refused;
        };
        let selected = slot.selected.clone();
        let is_blocked = slot.counts()
            || selected.is_some_and(|selected| self.limiter.blocks(&selected, now).is_some());
        slot.is_reserved |= !is_blocked;
        self.rank(key, now);
        self.shrink(now);
        if is_blocked {
            Reservation::Refused
        } else {
            Reservation::Made
        }
    }

    /// Ends a reservation.
    pub(crate) fn unreserve(&mut self, key: &W::Key, now: Instant) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.is_reserved = false;
            self.rank(key, now);
            self.shrink(now);
        }
    }

    /// Sets what this process may start of a key until the allowance ends.
    pub(crate) fn allow(&mut self, key: &Key, allowance: Option<Allowance>, now: Instant) {
        self.limiter.allow(key, allowance);
        self.start_unblocked(now);
    }

    /// Lowers what this process may start of a key to what `decide` returns for what the key uses
    /// now. Nothing can start in between.
    pub(crate) fn lower<R>(
        &mut self,
        key: &Key,
        now: Instant,
        decide: impl FnOnce(Option<Demand>) -> (Allowance, R),
    ) -> R {
        self.tick(now);
        let (allowance, result) = decide(self.limiter.demand(key));
        self.limiter.lower(key, allowance);
        result
    }

    /// Returns the known items that wait for the limit of a key.
    pub(crate) fn parked(&self, key: &Key) -> impl Iterator<Item = &W::Known> {
        let parked = self.limiter.parked(key);
        parked.filter_map(|item| Some(&self.slots.get(item)?.known))
    }

    /// Returns what wakes the task that obtains permits.
    pub(crate) fn permits_wanted(&self) -> Arc<Notify> {
        self.permits_wanted.clone()
    }

    pub(crate) fn has_rules(&self) -> bool {
        self.limiter.has_rules()
    }

    /// Returns whether an item that a poll for `enough` items has found counts as one that can run.
    /// Only some items of each key do, and none that no dispatcher may take.
    pub(crate) fn polled(
        &mut self,
        key: &W::Key,
        poll: PollNumber,
        enough: u32,
        now: Instant,
    ) -> Runs {
        let admits_yielding = self.admits_yielding();
        let Some(slot) = self.slots.get_mut(key) else {
            return Runs::Now;
        };
        if slot.yields() && !admits_yielding {
            return Runs::NotNow;
        }
        slot.select(&self.limiter);
        let selected = slot.selected.clone();
        selected.map_or(Runs::Now, |item| {
            self.limiter.polled(&item, poll, enough, now)
        })
    }

    /// Returns the limited keys in use.
    pub(crate) fn demands(&mut self, now: Instant) -> Vec<Demand> {
        self.tick(now);
        self.limiter.demands(now)
    }

    /// Does what the changes of limits require.
    pub(super) fn react(&mut self, now: Instant) {
        let news = self.limiter.take_news();
        if news.is_wanted {
            self.dispatchers.to_wake.push(self.permits_wanted.clone());
        }
        if news.has_ended {
            self.start_unblocked(now);
        }
        if self.ready.is_empty() {
            self.limiter.nothing_ready();
        }
    }

    /// Makes the items ready that waited for a limit and may start now.
    pub(super) fn start_unblocked(&mut self, now: Instant) {
        loop {
            let unblocked = self.limiter.unblocked(now);
            for key in &unblocked {
                self.rank(key, now);
            }
            // An item that waits for another limit now has left its place to the next one.
            let waits = |key| {
                let slot: Option<&Slot<W>> = self.slots.get(key);
                slot.is_some_and(|slot| slot.parked.is_some())
            };
            if !unblocked.iter().any(waits) {
                return;
            }
        }
    }
}
