//! The start of polls, and the items that they find.
//!
//! Other runtimes find and process the same items. So an item found by a poll is known until the
//! next poll that covers it.

use std::time::{Duration, Instant};

use super::queue::Queue;
use super::slot::{PollNumber, Work};

/// The number of polls after which an item that none of them has found is forgotten.
const FORGOTTEN_AFTER: PollNumber = 16;

/// The ready items per dispatcher with which a queue needs no poll.
const READY_PER_DISPATCHER: usize = 2;

impl<W: Work> Queue<W> {
    /// Starts a background poll if one is due. [`end_poll`](Self::end_poll) ends it.
    pub(super) fn start_poll(&mut self, now: Instant) -> Option<PollNumber> {
        let is_due = self.polls.next_start().is_some_and(|start| start <= now);
        is_due.then(|| {
            self.polls.is_polling = true;
            self.polls.number()
        })
    }

    /// Returns whether the dispatchers will soon have no ready item.
    pub(super) fn is_running_low(&self) -> bool {
        let load = self.load();
        load.ready < READY_PER_DISPATCHER * (load.waiting + load.working)
    }

    /// Notes the end of a background poll, and whether it found anything.
    pub(super) fn end_poll(&mut self, found: bool, now: Instant) {
        self.polls.is_polling = false;
        self.polls.pace.polled(found, now);
        // Every dispatcher then waits for the next poll.
        while self.nudge() {}
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
        let gone = self.polled.iter().filter(|key| {
            let slot = self.slots.get(*key);
            slot.is_some_and(|slot| {
                let last = slot.polled.unwrap_or(poll);
                let is_old = poll.saturating_sub(last) >= FORGOTTEN_AFTER;
                !slot.phase.is_busy() && last < poll && (is_old || covers(&slot.known))
            })
        });
        for key in gone.cloned().collect::<Vec<_>>() {
            self.set_polled(&key, None);
            self.edit(&key, W::forget_polled);
            self.place(&key, now);
        }
        for key in found {
            self.place(key, now);
        }
        self.shrink(now);
    }

    /// Polls soon, because only a poll can find the work that may have arrived.
    pub(crate) fn poll_soon(&mut self, now: Instant) {
        self.polls.pace.reset(now);
        self.nudge();
    }

    /// Returns the interval between the last two polls.
    pub(crate) fn poll_interval(&self) -> Duration {
        self.polls.pace.interval()
    }

    pub(super) fn set_polled(&mut self, key: &W::Key, poll: Option<PollNumber>) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.polled = poll;
            if poll.is_some() {
                self.polled.insert(key.clone());
            } else {
                self.polled.remove(key);
            }
        }
    }
}
