//! The transitions of an item: from an attempt to a lock, to the runtime, and back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::claim::{Caller, Claim, FetchedItem, Shared, UnusedPrelock, Won};
use super::limiter::Priority;
use super::queue::Queue;
use super::slot::{Behind, Class, Phase, Rank, Slot, Work};

impl<W: Work> Queue<W> {
    /// Claims a ready item for a prelock of a batch, for a dispatcher like this one. Returns `None` when no ready item is
    /// suitable, or another one comes first by rules.
    pub(crate) fn claim_ready(
        &mut self,
        capability: &W::Capability,
        now: Instant,
        is_suitable: impl Fn(&W::Known) -> bool,
    ) -> Option<(Claim<W::Key>, W::Attempt)> {
        self.tick(now);
        let is_suitable = |slots: &HashMap<W::Key, Slot<W>>, key: &W::Key| {
            let slot = slots.get(key);
            slot.is_some_and(|slot| matches!(slot.phase, Phase::Idle) && is_suitable(&slot.known))
        };
        let key = if self.limiter.is_ordered() || self.limiter.has_waiting() {
            let first = self.first_free(capability, now)?;
            Some(first.key).filter(|key| is_suitable(&self.slots, key))
        } else {
            let mut ready = self.ready.values();
            ready.find(|key| is_suitable(&self.slots, key)).cloned()
        };
        self.claim(&key?, now)
    }

    /// Claims an idle item for a prelock of a batch. Returns `None` while the item is not idle.
    pub(crate) fn claim(
        &mut self,
        key: &W::Key,
        now: Instant,
    ) -> Option<(Claim<W::Key>, W::Attempt)> {
        self.tick(now);
        let slot = self.slots.entry(key.clone()).or_default();
        if !matches!(slot.phase, Phase::Idle) {
            return None;
        }
        let claimed = self.start_attempt(key, now);
        self.rank(key, now);
        Some(claimed)
    }

    /// Ends what this process holds or runs of an item whose document was deleted: a batch has created
    /// another one of its key. An attempt that is under way finds out itself.
    pub(crate) fn replaced(&mut self, key: &W::Key, now: Instant) {
        self.tick(now);
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        match std::mem::replace(&mut slot.phase, Phase::Idle) {
            // As after an expired lock: the runtime learns it when it uses its token.
            Phase::Running { token, .. } => {
                self.end(&token, now);
            }
            Phase::Prelocked { .. } | Phase::Backoff { .. } => {}
            other => slot.phase = other,
        }
        self.edit(key, |known| W::expire(known, now));
        self.rank(key, now);
        self.shrink(now);
    }

    /// Starts an attempt on an item.
    pub(super) fn start_attempt(
        &mut self,
        key: &W::Key,
        now: Instant,
    ) -> (Claim<W::Key>, W::Attempt) {
        self.sequence += 1;
        let (key, epoch) = (key.clone(), self.sequence);
        let slot = self.slots.entry(key.clone()).or_default();
        slot.epoch = epoch;
        slot.phase = Phase::Trying;
        (Claim { key, epoch }, W::attempt(&slot.known, now))
    }

    /// Notes that a lock is requested with this token, which expires at `until`.
    pub(crate) fn locking(
        &mut self,
        claim: &Claim<W::Key>,
        token: &str,
        until: Instant,
        now: Instant,
    ) {
        let token = token.to_owned();
        self.change(claim, Phase::Locking { token, until }, now, |_| {});
    }

    /// Ends an attempt without a lock. `learn` notes what the attempt found.
    pub(crate) fn release(
        &mut self,
        claim: &Claim<W::Key>,
        now: Instant,
        learn: impl FnOnce(&mut W::Known),
    ) {
        self.change(claim, Phase::Idle, now, learn);
    }

    /// Ends an attempt without a lock, and starts a backoff.
    pub(crate) fn back_off(
        &mut self,
        claim: &Claim<W::Key>,
        until: Instant,
        now: Instant,
        learn: impl FnOnce(&mut W::Known),
    ) {
        self.change(claim, Phase::Backoff { until }, now, learn);
    }

    /// Ends an attempt that has sent nothing. Until then, the item goes behind others.
    pub(crate) fn go_behind(
        &mut self,
        claim: &Claim<W::Key>,
        until: Instant,
        order: Behind,
        now: Instant,
    ) {
        self.change(claim, Phase::Behind { until, order }, now, |_| {});
    }

    /// Ends a dropped attempt. A lock that it may have taken will be released.
    pub(crate) fn dropped(&mut self, claim: &Claim<W::Key>, now: Instant) {
        let Some(slot) = self.attempted(claim) else {
            return;
        };
        match std::mem::replace(&mut slot.phase, Phase::Idle) {
            Phase::Trying => {}
            Phase::Locking { token, until } => {
                slot.phase = Phase::Releasing { token, until };
                self.releasing.insert(claim.key.clone());
            }
            other => slot.phase = other,
        }
        self.rank(&claim.key, now);
        self.shrink(now);
    }

    /// Ends an attempt without an answer. The item is in backoff; a lock that may have been taken
    /// will be released.
    pub(crate) fn unanswered(
        &mut self,
        claim: &Claim<W::Key>,
        until: Instant,
        now: Instant,
        learn: impl FnOnce(&mut W::Known),
    ) {
        let slot = self.attempted(claim);
        if slot.is_some_and(|slot| matches!(slot.phase, Phase::Locking { .. })) {
            self.dropped(claim, now);
            self.correct(&claim.key, now, learn);
        } else {
            self.back_off(claim, until, now, learn);
        }
    }

    /// Notes a lock that a batch has taken for the next dispatcher.
    pub(crate) fn prelocked(
        &mut self,
        claim: &Claim<W::Key>,
        won: Won<W::Lock>,
        now: Instant,
        learn: impl FnOnce(&mut W::Known),
    ) {
        let phase = Phase::Prelocked {
            lock: Box::new(won.lock),
            token: won.token,
            until: won.until,
            since: now,
        };
        self.change(claim, phase, now, learn);
    }

    /// Hands an item to the runtime. Returns the item if its lock has expired: the caller releases
    /// it, so that its attempt does not count.
    #[must_use = "an expired lock is released"]
    pub(crate) fn hand_out(
        &mut self,
        claim: &Claim<W::Key>,
        won: Won<W::Running>,
        caller: Caller,
        now: Instant,
        learn: impl FnOnce(&mut W::Known),
    ) -> Option<W::Running> {
        let (token, until) = (won.token, won.until);
        let slot = self.slots.get(&claim.key);
        let arrival = slot.and_then(|slot| slot.arrival.filter(|_| slot.is_counted));
        let may_begin = arrival.is_none_or(|arrival| self.limiter.may_begin(arrival, now));
        if until <= now || !may_begin {
            self.release(claim, now, |known| W::expire(known, now));
            return Some(won.lock);
        }
        let phase = Phase::Running {
            token: token.clone(),
            until,
        };
        self.change(claim, phase, now, learn);
        self.dispatchers.working += usize::from(caller.is_runtime());
        let fetched = FetchedItem {
            claim: claim.clone(),
            running: Arc::new(won.lock.into()),
            caller,
            since: now,
            is_detached: false,
        };
        self.fetched.insert(token, fetched);
        None
    }

    /// Returns the item that the runtime is processing under this token; `None` without one.
    pub(crate) fn running(&self, token: &str) -> Option<Shared<W>> {
        let fetched = self
            .fetched
            .get(token)
            .filter(|fetched| !fetched.is_detached);
        fetched.map(|fetched| fetched.running.clone())
    }

    /// Returns the item that the runtime is processing under this token, and who fetched it.
    pub(crate) fn fetched(&self, token: &str) -> Option<(W::Key, Caller)> {
        let fetched = self.fetched.get(token)?;
        Some((fetched.claim.key.clone(), fetched.caller))
    }

    /// Returns for how long the runtime has been processing the item under this token.
    pub(crate) fn time_of(&self, token: &str, now: Instant) -> Option<Duration> {
        let fetched = self.fetched.get(token)?;
        Some(now.saturating_duration_since(fetched.since))
    }

    /// Notes that the end of an item is stored without its dispatcher, which is free. The runtime does
    /// not process the item any more.
    pub(crate) fn detach(&mut self, token: &str, now: Instant) {
        let Some(fetched) = self
            .fetched
            .get_mut(token)
            .filter(|fetched| !fetched.is_detached)
        else {
            return;
        };
        fetched.is_detached = true;
        let claim = fetched.claim.clone();
        self.dispatchers.working -= usize::from(fetched.caller.is_runtime());
        self.dispatchers.behind.remove(&claim.key);
        self.wake(now);
    }

    /// Returns the number of items whose end is stored without a dispatcher.
    pub(crate) fn detached(&self) -> usize {
        self.fetched
            .values()
            .filter(|fetched| fetched.is_detached)
            .count()
    }

    /// Returns an item that the runtime is processing; `None` when it does not process this item.
    pub(crate) fn running_at(&self, key: &W::Key) -> Option<Shared<W>> {
        match &self.slots.get(key)?.phase {
            Phase::Running { token, .. } => self
                .fetched
                .get(token)
                .map(|fetched| fetched.running.clone()),
            _ => None,
        }
    }

    /// Returns all items that the runtime is processing.
    pub(crate) fn all_running(&self) -> Vec<Shared<W>> {
        let fetched = self.fetched.values();
        fetched.map(|fetched| fetched.running.clone()).collect()
    }

    /// Extends the lock of this token until `until`; never shortens it.
    pub(crate) fn extend(&mut self, token: &str, until: Instant, now: Instant) {
        let Some(claim) = self.fetched.get(token).map(|fetched| fetched.claim.clone()) else {
            return;
        };
        if let Some(slot) = self.slots.get_mut(&claim.key)
            && let Phase::Running { until: end, .. } = &mut slot.phase
        {
            *end = until.max(*end);
            self.rank(&claim.key, now);
        }
    }

    /// Ends the processing of an item. `learn` notes its result.
    pub(crate) fn finish(&mut self, token: &str, now: Instant, learn: impl FnOnce(&mut W::Known)) {
        if let Some(claim) = self.end(token, now) {
            self.release(&claim, now, learn);
        }
    }

    /// Ends the processing of an item without a result, and starts a backoff.
    pub(crate) fn finish_unable(
        &mut self,
        token: &str,
        until: Instant,
        now: Instant,
        learn: impl FnOnce(&mut W::Known),
    ) {
        if let Some(claim) = self.end(token, now) {
            self.back_off(&claim, until, now, learn);
        }
    }

    /// Removes a running item. Its slot is then in the phase of an attempt.
    pub(super) fn end(&mut self, token: &str, now: Instant) -> Option<Claim<W::Key>> {
        let fetched = self.fetched.remove(token)?;
        if let Some(slot) = self.slots.get_mut(&fetched.claim.key)
            && matches!(slot.phase, Phase::Running { .. })
        {
            slot.phase = Phase::Trying;
        }
        if !fetched.is_detached {
            self.dispatchers.working -= usize::from(fetched.caller.is_runtime());
            let time = now.saturating_duration_since(fetched.since);
            self.dispatchers.average.add(time);
        }
        Some(fetched.claim)
    }

    /// Takes the prelocks that no dispatcher has used since `before`. Each must end with
    /// [`released`](Self::released).
    pub(crate) fn take_unused(&mut self, before: Instant, now: Instant) -> Vec<UnusedPrelock<W>> {
        let locked = self
            .ready
            .range(..Rank::start_of(Class::Free, Priority::High));
        let locked = locked.map(|(_, key)| key.clone());
        let mut taken = Vec::new();
        for key in locked.collect::<Vec<_>>() {
            let Some(slot) = self.slots.get_mut(&key) else {
                continue;
            };
            match std::mem::replace(&mut slot.phase, Phase::Idle) {
                Phase::Prelocked {
                    lock,
                    token,
                    until,
                    since,
                } if since <= before => {
                    slot.phase = Phase::Releasing { token, until };
                    let epoch = slot.epoch;
                    self.rank(&key, now);
                    taken.push((Claim { key, epoch }, lock));
                }
                other => slot.phase = other,
            }
        }
        taken
    }

    /// Takes the tokens of locks that a dropped fetch may have taken. Each must end with
    /// [`released`](Self::released).
    pub(crate) fn take_releasing(&mut self) -> Vec<(Claim<W::Key>, String)> {
        let mut taken = Vec::new();
        for key in std::mem::take(&mut self.releasing) {
            if let Some(slot) = self.slots.get(&key)
                && let Phase::Releasing { token, .. } = &slot.phase
            {
                let epoch = slot.epoch;
                taken.push((Claim { key, epoch }, token.clone()));
            }
        }
        taken
    }

    /// Notes that a lock was released, or will expire.
    pub(crate) fn released(&mut self, claim: &Claim<W::Key>, now: Instant) {
        let slot = self.slots.get_mut(&claim.key);
        if let Some(slot) = slot.filter(|slot| slot.epoch == claim.epoch)
            && matches!(slot.phase, Phase::Releasing { .. })
        {
            slot.phase = Phase::Idle;
            self.edit(&claim.key, |known| W::expire(known, now));
            self.rank(&claim.key, now);
            self.shrink(now);
        }
    }

    /// Returns the slot of an attempt; `None` after its claim has ended.
    fn attempted(&mut self, claim: &Claim<W::Key>) -> Option<&mut Slot<W>> {
        let slot = self.slots.get_mut(&claim.key)?;
        (slot.epoch == claim.epoch && slot.phase.is_undecided()).then_some(slot)
    }

    /// Moves an attempt to a new phase.
    fn change(
        &mut self,
        claim: &Claim<W::Key>,
        phase: Phase<W::Lock>,
        now: Instant,
        learn: impl FnOnce(&mut W::Known),
    ) {
        let Some(slot) = self.attempted(claim) else {
            debug_assert!(false, "a guard ends its claim once: {claim:?}");
            return;
        };
        slot.phase = phase;
        self.edit(&claim.key, learn);
        self.rank(&claim.key, now);
        self.shrink(now);
    }
}
