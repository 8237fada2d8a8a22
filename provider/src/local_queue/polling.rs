//! When a queue is polled, and what becomes of what a poll has found.
//!
//! Other runtimes find the same items and work on them. So what a poll has found counts until the next one that asks for
//! at least as much.

use std::time::{Duration, Instant};

use super::queue::Queue;
use super::slot::{PollNumber, Work};

/// How many polls later an item is forgotten at the latest that none of them has found.
const FORGOTTEN_AFTER: PollNumber = 16;

impl<W: Work> Queue<W> {
    /// Begins a poll in the background if one is due. It ends with [`end_poll`](Self::end_poll).
    pub(super) fn start_poll(&mut self, now: Instant) -> Option<PollNumber> {
        let is_due = self.polls.next_start().is_some_and(|start| start <= now);
        is_due.then(|| {
            self.polls.is_polling = true;
            self.polls.number()
        })
    }

    /// Notes the end of a poll in the background, and whether it found anything.
    pub(super) fn end_poll(&mut self, found: bool, now: Instant) {
        self.polls.is_polling = false;
        self.polls.pace.polled(found, now);
        // Each waits for the time of the next poll now.
        while self.nudge() {}
    }

    /// Notes what a poll has found of an item.
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

    /// Makes the found items ready in this order, and forgets what earlier polls have found and this one, which `covers`
    /// them, has not.
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

    /// Polls soon: something may have come that only a poll can find.
    pub(crate) fn poll_soon(&mut self, now: Instant) {
        self.polls.pace.reset(now);
        self.nudge();
    }

    /// The time between the last two polls.
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
