//! The limits of a queue's items: what is counted, and what waits for permits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_coordination::search::Runs;
use tokio::sync::Notify;

use super::limiter::{Key, Selected, Tag};
use super::queue::Queue;
use super::slot::{PollNumber, Rank, Slot, Work};
use crate::queue::limits::protocol::{Message, Reply, RuntimeId, Time, Usage};
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
    /// Replaces the rules, for all known items. `version` is the time of their change.
    pub(crate) fn set_rules(&mut self, rules: Vec<Rule>, version: i64, now: Instant) {
        self.limiter.set_rules(rules, version, now);
        for slot in self.slots.values_mut() {
            let labels = slot.labels.as_deref();
            let is_limitable = W::is_limitable(&slot.known);
            slot.selected = labels.and_then(|labels| self.limiter.select(labels, is_limitable));
            slot.tag = None;
            slot.is_chosen = false;
            slot.arrival = None;
            slot.is_counted = false;
            slot.has_begun = false;
        }
        self.rank_all(now);
    }

    /// Ranks all items: what runs is counted before anything is let start.
    pub(super) fn rank_all(&mut self, now: Instant) {
        let mut keys: Vec<_> = self.slots.iter().collect();
        keys.sort_by_key(|(_, slot)| {
            let arrived = slot.idle.map(|((), number)| number);
            (!slot.counts(), slot.rank, W::due(&slot.known), arrived)
        });
        let keys: Vec<_> = keys.into_iter().map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.rank(&key, now);
        }
        self.shrink(now);
    }

    /// Notes what rules select an item by. The caller must rank the item afterwards.
    pub(crate) fn label(&mut self, key: &W::Key, labels: impl FnOnce() -> Labels) {
        let slot = self.slots.entry(key.clone()).or_default();
        if slot.labels.is_none() {
            let labels = Arc::new(labels());
            slot.selected = self.limiter.select(&labels, W::is_limitable(&slot.known));
            slot.labels = Some(labels);
        }
    }

    /// Returns the items without labels.
    pub(crate) fn unlabelled(&self) -> Vec<W::Key> {
        let unlabelled = self.slots.iter().filter(|(_, slot)| slot.labels.is_none());
        unlabelled.map(|(key, _)| key.clone()).collect()
    }

    /// Counts an item as running that a batch will create and lock, if the limits let it start, and no other item
    /// for dispatchers like this one is before it in the order. Each reservation needs an
    /// [`unreserve`](Self::unreserve), once the batch has ended.
    pub(crate) fn reserve(
        &mut self,
        key: &W::Key,
        capability: &W::Capability,
        now: Instant,
    ) -> Reservation {
        let idle = self.slots.get(key).filter(|slot| !slot.counts());
        let selected = idle.map(|slot| slot.selected.clone());
        let (made, tag) = match selected {
            None => (Reservation::Refused, None),
            Some(None) => (Reservation::Made, None),
            Some(Some(item)) => match self.admit(&item, capability, now) {
                Some(tag) => (Reservation::Made, Some(tag)),
                None => (Reservation::Refused, None),
            },
        };
        if let Some(slot) = self.slots.get_mut(key) {
            slot.reservations += u8::from(made == Reservation::Made);
            slot.tag = tag.or(slot.tag);
        }
        self.rank(key, now);
        self.shrink(now);
        made
    }

    /// Returns the tag of a new item that may start now, before all that a dispatcher could take instead.
    fn admit(&mut self, item: &Selected, capability: &W::Capability, now: Instant) -> Option<Tag> {
        if !self.limiter.has_room(item, now) {
            return None;
        }
        let tag = self.limiter.tag(item);
        let is_before = |rank: Rank| (rank.priority, rank.tag) < (item.priority, tag);
        let first = self.first_free(capability, now);
        if first.is_some_and(|first| is_before(first.rank)) {
            self.limiter.untag(item, tag);
            return None;
        }
        Some(tag)
    }

    /// Makes a reservation once more, which then needs another [`unreserve`](Self::unreserve): the outcome of the batch
    /// is unknown.
    pub(crate) fn reserve_again(&mut self, key: &W::Key) -> Reservation {
        match self.slots.get_mut(key) {
            Some(slot) if slot.is_reserved() => {
                slot.reservations += 1;
                Reservation::Made
            }
            _ => Reservation::Refused,
        }
    }

    /// Ends a reservation.
    pub(crate) fn unreserve(&mut self, key: &W::Key, now: Instant) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.reservations = slot.reservations.saturating_sub(1);
            self.rank(key, now);
            self.shrink(now);
        }
    }

    /// Tells the time of the service.
    pub(crate) fn set_clock(&mut self, time: Time, now: Instant) {
        self.limiter.set_clock(now, time);
    }

    /// Returns the requests about limits that are due, the name of this process for them, and when to ask again.
    pub(crate) fn requests(&mut self, now: Instant) -> (Vec<Message>, RuntimeId, Option<Instant>) {
        let room = self.load().waiting;
        let (messages, wake_at) = self.limiter.messages(room, now);
        (messages, self.limiter.runtime().id().clone(), wake_at)
    }

    /// Notes the answer to a request of this process under a name.
    pub(crate) fn answered(&mut self, by: &RuntimeId, reply: Reply, now: Instant) {
        self.limiter.answer(by, reply, now);
        self.wake(now);
        self.react();
    }

    /// Returns the runtimes whose leases this process should look at, because they may keep permits from its items.
    pub(crate) fn suspects(&mut self) -> Vec<RuntimeId> {
        self.limiter.runtime().suspects()
    }

    /// Returns the name of this process, and the end of its lease.
    pub(crate) fn lease(&mut self) -> (RuntimeId, Time) {
        let runtime = self.limiter.runtime();
        (runtime.id().clone(), runtime.locked_until())
    }

    /// Returns all permits that are not in use, from now on: the process ends.
    pub(crate) fn close_limits(&mut self) {
        self.limiter.runtime().close();
    }

    /// Returns whether this process has permits of any key.
    pub(crate) fn has_permits(&self) -> bool {
        self.limiter.has_permits()
    }

    /// Notes a lease that has ended.
    pub(crate) fn found_ended(&mut self, id: &RuntimeId, until: Time, is_dead: bool) {
        self.limiter.runtime().found_ended(id, until, is_dead);
        self.react();
    }

    /// Returns for how long an item may be locked: a limited one not beyond the lease of this process.
    pub(crate) fn lock_time(&mut self, key: &W::Key, lock: Duration, now: Instant) -> Duration {
        let slot = self.slots.get(key);
        if slot.is_some_and(Slot::is_limited) {
            self.limiter.lock_time(lock, now)
        } else {
            lock
        }
    }

    /// Forgets the limited keys that were not in use for long.
    pub(crate) fn forget_unused(&mut self, now: Instant) {
        self.limiter.forget_unused(now);
    }

    /// Returns what this process uses of each limited key.
    pub(crate) fn usage(&self) -> Vec<(Key, Usage)> {
        self.limiter.usage()
    }

    /// Returns what wakes the task that sends the requests of limits.
    pub(crate) fn permits_wanted(&self) -> Arc<Notify> {
        self.permits_wanted.clone()
    }

    pub(crate) fn has_rules(&self) -> bool {
        self.limiter.has_rules()
    }

    /// Returns whether an item that a poll for `enough` items has found counts as one that can run.
    /// Only some items of each key do, and none that no dispatcher may take.
    pub(crate) fn polled(&mut self, key: &W::Key, poll: PollNumber, enough: u32) -> Runs {
        let admits_yielding = self.admits_yielding();
        let Some(slot) = self.slots.get_mut(key) else {
            return Runs::Now;
        };
        if slot.yields() && !admits_yielding {
            return Runs::NotNow;
        }
        slot.select(&self.limiter);
        let selected = slot.selected.clone();
        selected.map_or(Runs::Now, |item| self.limiter.polled(&item, poll, enough))
    }

    /// Does what the changes of limits require.
    pub(super) fn react(&mut self) {
        if self.limiter.has_rules() && self.limiter.is_touched(self.load().waiting) {
            self.dispatchers.to_wake.push(self.permits_wanted.clone());
        }
        if self.ready.is_empty() && !self.limiter.has_waiting() {
            self.limiter.turns.nothing_waits();
        }
    }
}
