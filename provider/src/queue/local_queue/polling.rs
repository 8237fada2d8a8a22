//! The start of polls, and the items that they find.
//!
//! Other runtimes find and process the same items. So an item found by a poll is known until the
//! next poll that covers it.

use std::time::{Duration, Instant};

use super::limiter::Priority;
use super::queue::{Queue, put};
use super::slot::{Class, PollNumber, Rank, Slot, Work};
use crate::timing::POLL_OVERLAP;

/// The number of polls after which an item that none of them has found is forgotten.
const FORGOTTEN_AFTER: PollNumber = 16;

/// The ready items per dispatcher with which a queue needs no poll.
const READY_PER_DISPATCHER: usize = 2;

impl<W: Work> Queue<W> {
    /// Starts a background poll if one is due. [`end_poll`](Self::end_poll) ends it.
    pub(crate) fn start_poll(&mut self, now: Instant) -> Option<PollNumber> {
        let is_due = self.next_poll().is_some_and(|start| start <= now);
        self.is_polling |= is_due;
        is_due.then(|| self.number_poll())
    }

    /// Returns the start of the next background poll; `None` while one runs, or after the queue was
    /// closed.
    pub(super) fn next_poll(&self) -> Option<Instant> {
        (!self.is_polling && !self.dispatchers.closing).then(|| self.pace.next())
    }

    /// Returns the number of a new poll.
    pub(super) fn number_poll(&mut self) -> PollNumber {
        self.last_poll += 1;
        self.last_poll
    }

    /// Returns whether a poll must start although the dispatchers have ready items: other processes
    /// may have queued work, and no dispatcher may ever wait.
    pub(crate) fn is_poll_overdue(&self, now: Instant) -> bool {
        self.looks_for_keys() || self.pace.is_overdue(now)
    }

    /// Returns whether polls look for items of other keys while some are ready, because one of them may
    /// come before all that are. Processes that take the same items in the same order lose a race
    /// and poll often enough.
    fn looks_for_keys(&self) -> bool {
        W::IS_SCATTERED && self.limiter.is_ordered()
    }

    /// Notes the begin of a poll. Returns how long ago the items have become due that it needs to
    /// find, `None` for all items. While the dispatchers have ready items, a poll looks for new items
    /// of other keys: it would otherwise read the items of one key again and again.
    pub(crate) fn begin_poll(&mut self, now: Instant) -> Option<Duration> {
        let last = self.last_poll_at.replace(now)?;
        let whole = self.last_whole_poll_at;
        let is_recent = whole.is_some_and(|whole| self.pace.is_recent(whole, now));
        if is_recent && self.looks_for_keys() && !self.is_running_low() {
            return Some(now.saturating_duration_since(last) + POLL_OVERLAP);
        }
        self.last_whole_poll_at = Some(now);
        None
    }

    /// Returns whether the dispatchers will soon have no ready item but those that go behind others.
    pub(crate) fn is_running_low(&self) -> bool {
        let load = self.load();
        let enough = READY_PER_DISPATCHER * (load.waiting + load.working);
        let behind = Rank::start_of(Class::Backoff, Priority::High);
        load.ready < enough || self.ready.range(..behind).take(enough).count() < enough
    }

    /// Notes the end of a background poll, and whether it found anything.
    pub(super) fn end_poll(&mut self, found: bool, now: Instant) {
        self.is_polling = false;
        self.pace.polled(found, now);
        // Every dispatcher then waits for the next poll.
        self.wake_all();
    }

    /// Notes an item that a poll has found.
    pub(crate) fn learn_from_poll(
        &mut self,
        poll: PollNumber,
        key: &W::Key,
        learn: impl FnOnce(&mut W::Known),
    ) {
        let slot = self.slots.entry(key.clone()).or_default();
        let is_polled = slot.polled.is_some() || W::due(&slot.known).is_none();
        if is_polled {
            self.set_polled(key, Some(poll));
        }
        self.edit(key, learn);
    }

    /// Makes the found items ready in this order. Forgets items of earlier polls that this poll
    /// `covers` but has not found.
    pub(crate) fn finish_poll(
        &mut self,
        poll: PollNumber,
        found: &[W::Key],
        covers: impl Fn(&W::Known) -> bool,
        now: Instant,
    ) {
        let earlier = self.polled.range(..(poll, 0));
        let gone = earlier.filter(|((last, _), key)| {
            let is_old = poll - last >= FORGOTTEN_AFTER;
            let slot = self.slots.get(*key);
            slot.is_some_and(|slot| !slot.phase.is_busy() && (is_old || covers(&slot.known)))
        });
        let gone: Vec<_> = gone.map(|(_, key)| key.clone()).collect();
        self.forget_polled(gone, now);
        self.found(found, now);
    }

    /// Makes the found items ready in this order.
    pub(crate) fn found(&mut self, found: &[W::Key], now: Instant) {
        for key in found {
            self.rank(key, now);
        }
        self.shrink(now);
    }

    /// Notes that another process has taken an item that a poll found. The other items of its key that
    /// this poll found are probably taken too: forgets those that are ready, and polls soon.
    pub(crate) fn lost_race(&mut self, key: &W::Key, now: Instant) {
        let slot = self.slots.get(key);
        let Some((poll, _)) = slot.and_then(|slot| slot.polled) else {
            return;
        };
        // In a fair order, other processes take the first items of each key.
        let place = |slot: &Slot<W>| slot.selected.as_ref().map(|selected| selected.place());
        let lost = slot.filter(|_| self.looks_for_keys()).and_then(place);
        let found = self.polled.range(..=(poll, u64::MAX));
        let ready = found.filter(|(_, key)| {
            let slot = self.slots.get(*key).filter(|slot| slot.rank.is_some());
            slot.is_some_and(|slot| lost.is_none() || place(slot) == lost)
        });
        let ready: Vec<_> = ready.map(|(_, key)| key.clone()).collect();
        self.forget_polled(ready, now);
        // A forgotten item may leave a cache that can be evicted only now.
        self.shrink(now);
        self.poll_soon(now);
    }

    fn forget_polled(&mut self, keys: Vec<W::Key>, now: Instant) {
        for key in keys {
            self.set_polled(&key, None);
            self.edit(&key, W::forget_polled);
            self.rank(&key, now);
        }
    }

    /// Polls soon, because only a poll can find the work that may have arrived.
    pub(crate) fn poll_soon(&mut self, now: Instant) {
        self.pace.reset(now);
        self.nudge();
    }

    /// Returns the interval between the last two polls.
    pub(crate) fn poll_interval(&self) -> Duration {
        self.pace.interval()
    }

    pub(super) fn set_polled(&mut self, key: &W::Key, poll: Option<PollNumber>) {
        if let Some(slot) = self.slots.get_mut(key) {
            let entry = &mut slot.polled;
            put(&mut self.polled, entry, poll, key, &mut self.sequence);
        }
    }
}
