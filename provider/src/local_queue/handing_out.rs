//! Which waiting dispatcher gets which item.

use std::time::{Duration, Instant};

use super::claim::Claim;
use super::dispatcher::{Ask, Load, Next, Waiter, WaiterId};
use super::queue::Queue;
use super::slot::{Offer, Phase, Slot, Work};

impl<W: Work> Queue<W> {
    /// Registers a fetch.
    pub(super) fn ask(&mut self, ask: Ask<W::Ask>) -> WaiterId {
        let dispatchers = &mut self.dispatchers;
        if ask.long_poll {
            dispatchers.last_ask = Some(ask.clone());
        }
        dispatchers.next_id += 1;
        let waiter = Waiter {
            must_poll: !ask.long_poll,
            ask,
            // It looks right away.
            woken: true,
            is_outdated: false,
            undecided: Vec::new(),
        };
        dispatchers.waiting.insert(dispatchers.next_id, waiter);
        dispatchers.next_id
    }

    /// Ends a fetch. What it was woken for goes to another one.
    pub(super) fn leave(&mut self, id: WaiterId, now: Instant) {
        self.dispatchers.waiting.remove(&id);
        self.wake(now);
        // The next timer and the next poll need a dispatcher that waits for them.
        self.nudge();
    }

    /// What a fetch does next.
    pub(super) fn next(&mut self, id: WaiterId, now: Instant) -> Next<W> {
        let timer = self.tick(now);
        let Some(waiter) = self.dispatchers.waiting.get_mut(&id) else {
            return Next::GiveUp;
        };
        waiter.woken = false;
        let ask = waiter.ask.clone();
        let (must_poll, is_outdated) = (waiter.must_poll, waiter.is_outdated);
        let accepted = self.ready.values().find(|key| {
            let slot = self.slots.get(*key);
            slot.is_some_and(|slot| accepts(&ask.who, slot, now))
        });
        if let Some(key) = accepted.cloned() {
            return self.take(&key, ask.lock_timeout, now);
        }
        if must_poll {
            return self.own_poll(id);
        }
        if is_outdated {
            return Next::GiveUp;
        }
        if ask.long_poll {
            let poll = self.polls.next_start();
            return Next::Wait(timer.into_iter().chain(poll).min());
        }
        let is_undecided = |claim: &Claim<W::Key>| {
            let slot = self.slots.get(&claim.key);
            slot.is_some_and(|slot| slot.epoch == claim.epoch && slot.phase.is_undecided())
        };
        let waiter = self.dispatchers.waiting.get(&id);
        match waiter {
            Some(waiter) if waiter.undecided.iter().any(is_undecided) => Next::WaitForAttempt,
            _ => Next::GiveUp,
        }
    }

    /// A fetch that does not wait polls once.
    fn own_poll(&mut self, id: WaiterId) -> Next<W> {
        if let Some(waiter) = self.dispatchers.waiting.get_mut(&id) {
            waiter.must_poll = false;
        }
        Next::Poll(self.polls.number())
    }

    fn take(&mut self, key: &W::Key, lock_timeout: Duration, now: Instant) -> Next<W> {
        let Some(slot) = self.slots.get_mut(key) else {
            return Next::Wait(Some(now));
        };
        let next = match std::mem::replace(&mut slot.phase, Phase::Idle) {
            Phase::Prelocked {
                lock, token, until, ..
            } => {
                let epoch = slot.epoch;
                slot.phase = Phase::Locking { token, until };
                let key = key.clone();
                Next::Begin(Claim { key, epoch }, lock)
            }
            _ => match self.start_attempt(key, now, now + lock_timeout) {
                Some((claim, attempt)) => Next::Try(claim, attempt),
                None => Next::Wait(Some(now)),
            },
        };
        self.place(key, now);
        self.wake(now);
        next
    }

    /// Wakes, for each item that is ready, one waiting dispatcher that can take it.
    pub(super) fn wake(&mut self, now: Instant) {
        let dispatchers = &mut self.dispatchers;
        let asleep = dispatchers.waiting.iter_mut();
        let mut asleep: Vec<_> = asleep.filter(|(_, waiter)| !waiter.woken).collect();
        for key in self.ready.values() {
            if asleep.is_empty() {
                return;
            }
            let Some(slot) = self.slots.get(key) else {
                continue;
            };
            let fits = |(_, waiter): &(_, &mut Waiter<W>)| accepts(&waiter.ask.who, slot, now);
            if let Some(at) = asleep.iter().position(fits) {
                let (id, waiter) = asleep.swap_remove(at);
                waiter.woken = true;
                dispatchers.to_wake.push(*id);
            }
        }
    }

    /// Ends the fetches that wait and that are `outdated` by an item which is ready: they find nothing, and ask again.
    pub(crate) fn end_fetches(&mut self, outdated: impl Fn(&W::Ask, &W::Known) -> bool) {
        let dispatchers = &mut self.dispatchers;
        for (id, waiter) in &mut dispatchers.waiting {
            let ready = self.ready.values().filter_map(|key| self.slots.get(key));
            let mut ready = ready.filter(|slot| matches!(slot.phase, Phase::Idle));
            if waiter.ask.long_poll && ready.any(|slot| outdated(&waiter.ask.who, &slot.known)) {
                waiter.is_outdated = true;
                waiter.woken = true;
                dispatchers.to_wake.push(*id);
            }
        }
    }

    /// What the dispatchers ask for that wait.
    pub(crate) fn asks(&self) -> Vec<W::Ask> {
        let waiting = self.dispatchers.waiting.values();
        waiting.map(|waiter| waiter.ask.who.clone()).collect()
    }

    /// Has one waiting dispatcher look again, whatever is ready. `false` when none is asleep.
    pub(super) fn nudge(&mut self) -> bool {
        let mut waiting = self.dispatchers.waiting.iter_mut();
        let Some((id, waiter)) = waiting.find(|(_, waiter)| !waiter.woken) else {
            return false;
        };
        waiter.woken = true;
        self.dispatchers.to_wake.push(*id);
        true
    }

    /// Notes the end of a dispatcher's own poll. The dispatcher waits for attempts that are under way for items which it
    /// has found.
    pub(super) fn end_own_poll(&mut self, id: WaiterId, found: &[W::Key], now: Instant) {
        self.polls.pace.polled(!found.is_empty(), now);
        let undecided = found.iter().filter_map(|key| {
            let slot = self.slots.get(key)?;
            let (key, epoch) = (key.clone(), slot.epoch);
            slot.phase.is_undecided().then_some(Claim { key, epoch })
        });
        let undecided = undecided.collect();
        if let Some(waiter) = self.dispatchers.waiting.get_mut(&id) {
            waiter.undecided = undecided;
        }
    }

    /// How much there is to do.
    pub(crate) fn load(&self) -> Load {
        let waiting = self.dispatchers.waiting.values();
        Load {
            ready: self.ready.len(),
            waiting: waiting.filter(|waiter| waiter.ask.long_poll).count(),
            working: self.dispatchers.working,
        }
    }

    /// What a dispatcher of this process asks for; `None` while none does, or when nothing new is to be begun.
    pub(crate) fn last_ask(&self) -> Option<&Ask<W::Ask>> {
        let ask = self.dispatchers.last_ask.as_ref();
        ask.filter(|_| !self.dispatchers.closing)
    }

    /// How many items one dispatcher works on within `time`, by the average of the last ones.
    pub(crate) fn how_many_in(&self, time: Duration) -> usize {
        self.dispatchers.average.how_many_in(time)
    }

    /// What each waiting dispatcher asks for, and whether it was woken.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> impl Iterator<Item = (W::Ask, bool)> {
        let waiting = self.dispatchers.waiting.values();
        waiting.map(|waiter| (waiter.ask.who.clone(), waiter.woken))
    }

    /// Begins nothing new: no polls, no locks ahead.
    pub(crate) fn close(&mut self) {
        self.dispatchers.closing = true;
        self.polls.close();
    }
}

/// Whether a dispatcher can take what the slot offers.
fn accepts<W: Work>(ask: &W::Ask, slot: &Slot<W>, now: Instant) -> bool {
    let offer: Option<(_, Offer<'_, W>)> = slot.offer(now);
    offer.is_some_and(|(_, offer)| W::accepts(ask, offer))
}
