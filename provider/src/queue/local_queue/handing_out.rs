//! Hands items to waiting dispatchers.

use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::claim::Claim;
use super::dispatcher::{FetchRequest, Load, Next, Takers, Waiter, WaiterId};
use super::limiter::Priority;
use super::queue::Queue;
use super::slot::{Behind, Class, Entry, Offer, Phase, Rank, Slot, Work};
use crate::timing::FIRST_FOR;

/// The first items that are handed out in a row while others have been ready for [`FIRST_FOR`].
/// Each of the others costs a request more.
const MAX_FIRST_IN_A_ROW: u32 = 16;

/// A ready item.
#[derive(Debug)]
pub(super) struct Found<K> {
    pub(super) key: K,
    pub(super) rank: Rank,
    /// The lower priorities whose items are passed over.
    passed_over: Vec<Priority>,
}

impl<W: Work> Queue<W> {
    /// Registers a fetch.
    pub(crate) fn register(&mut self, request: FetchRequest<W::Capability>) -> WaiterId {
        let dispatchers = &mut self.dispatchers;
        dispatchers.note_kind(&request.capability);
        if request.caller.is_runtime() {
            dispatchers.last_request = Some(request.clone());
        }
        dispatchers.next_id += 1;
        let waiter = Waiter {
            must_poll: !request.caller.is_runtime(),
            request,
            // A new fetch looks for an item immediately.
            woken: true,
            is_outdated: false,
            undecided: Vec::new(),
            notify: Arc::default(),
        };
        dispatchers.waiting.insert(dispatchers.next_id, waiter);
        dispatchers.next_id
    }

    /// Ends a fetch, and wakes another one for its item.
    pub(crate) fn leave(&mut self, id: WaiterId, now: Instant) {
        self.dispatchers.waiting.remove(&id);
        self.wake(now);
        // The next timer and the next poll need a waiting dispatcher.
        self.nudge();
    }

    /// Returns the next step of a fetch.
    pub(crate) fn next(&mut self, id: WaiterId, now: Instant) -> Next<W> {
        let timer = self.tick(now);
        if std::mem::take(&mut self.dispatchers.has_new_kind) && self.limiter.has_rules() {
            self.rank_all(now);
        }
        let Some(waiter) = self.dispatchers.waiting.get_mut(&id) else {
            return Next::End;
        };
        waiter.woken = false;
        let request = waiter.request.clone();
        let (must_poll, is_outdated) = (waiter.must_poll, waiter.is_outdated);
        if let Some(found) = self.first_accepted(&request.capability, now) {
            return self.take(&found, now);
        }
        if must_poll {
            return Next::Poll(self.number_poll());
        }
        if is_outdated {
            return Next::End;
        }
        if request.caller.is_runtime() {
            let poll = self.next_poll();
            return Next::Wait(timer.into_iter().chain(poll).min());
        }
        let is_undecided = |claim: &Claim<W::Key>| {
            let slot = self.slots.get(&claim.key);
            slot.is_some_and(|slot| slot.epoch == claim.epoch && slot.phase.is_undecided())
        };
        let waiter = self.dispatchers.waiting.get(&id);
        match waiter {
            Some(waiter) if waiter.undecided.iter().any(is_undecided) => Next::WaitForAttempt,
            _ => Next::End,
        }
    }

    /// Returns the class of the next item. Items that are first again and again would delay all
    /// others.
    fn next_class(&mut self, has_others: bool, now: Instant) -> Class {
        let dispatchers = &mut self.dispatchers;
        if !has_others {
            dispatchers.others_ready_since = None;
            return Class::First;
        }
        let since = *dispatchers.others_ready_since.get_or_insert(now);
        let has_waited = now.saturating_duration_since(since) >= FIRST_FOR;
        if has_waited && dispatchers.first_in_a_row >= MAX_FIRST_IN_A_ROW {
            Class::Free
        } else {
            Class::First
        }
    }

    /// Returns the first ready item that a dispatcher can take.
    fn first_accepted(
        &mut self,
        capability: &W::Capability,
        now: Instant,
    ) -> Option<Found<W::Key>> {
        let free = Rank::start_of(Class::Free, Priority::High);
        let backoff = Rank::start_of(Class::Backoff, Priority::High);
        let others = self.first_free(capability, now);
        let has_others = others.is_some() || self.ready.range(free..).next().is_some();
        let class = self.next_class(has_others, now);
        let alone = |((rank, _), key): (&Entry<Rank>, &W::Key)| Found {
            key: key.clone(),
            rank: *rank,
            passed_over: Vec::new(),
        };
        let accepts = self.acceptance(capability, now);
        let first = self.ready.range(..free).find(|(_, key)| accepts(key));
        let first = first.map(alone);
        let found = match class {
            Class::First => first.or(others),
            Class::Free | Class::Backoff => others.or(first),
        };
        let last = || self.ready.range(backoff..).find(|(_, key)| accepts(key));
        found.or_else(|| last().map(alone))
    }

    /// Returns the first item that a dispatcher can take, in the order of priorities, fair shares and arrivals.
    pub(super) fn first_free(
        &mut self,
        capability: &W::Capability,
        now: Instant,
    ) -> Option<Found<W::Key>> {
        let admits_yielding = self.admits_yielding();
        let slots = &self.slots;
        let limited = self.limiter.first_of_each(now, |key| {
            let slot = slots.get(key);
            slot.is_some_and(|slot| is_accepted(capability, slot, admits_yielding, now))
        });
        let accepts = self.acceptance(capability, now);
        let first_of = |priority| {
            let of_priority = self.ready.range(range_of(priority));
            let free = of_priority.into_iter().find(|(_, key)| accepts(key));
            let free = free.map(|((rank, arrival), key)| (rank.tag, *arrival, key));
            let limited = limited.get(&priority);
            let limited = limited.map(|ready| (ready.tag, ready.arrival, &ready.key));
            let (tag, _, key) = free.into_iter().chain(limited).min()?;
            let class = Class::Free;
            let rank = Rank {
                class,
                priority,
                tag,
            };
            Some((rank, key.clone()))
        };
        let next = self.limiter.turns.first();
        let priorities = Priority::ALL.into_iter().filter(|it| *it >= next);
        let earlier = Priority::ALL.into_iter().filter(|it| *it < next);
        let mut all = priorities.chain(earlier);
        let (rank, key) = all.find_map(first_of)?;
        let waits = |priority: &Priority| {
            *priority > rank.priority
                && (limited.contains_key(priority)
                    || self.ready.range(range_of(*priority)).next().is_some())
        };
        Some(Found {
            key,
            rank,
            passed_over: Priority::ALL.into_iter().filter(waits).collect(),
        })
    }

    /// Returns whether a dispatcher can take the item of a key.
    fn acceptance(&self, capability: &W::Capability, now: Instant) -> impl Fn(&W::Key) -> bool {
        let (slots, admits_yielding) = (&self.slots, self.admits_yielding());
        move |key| {
            let slot = slots.get(key);
            slot.is_some_and(|slot| is_accepted(capability, slot, admits_yielding, now))
        }
    }

    /// Returns whether a dispatcher may take an item that yields to others. One of several dispatchers
    /// stays free for the others, and finds those that other processes wrote.
    pub(super) fn admits_yielding(&self) -> bool {
        let load = self.load();
        let at_work = self.dispatchers.behind.values();
        let at_work = at_work.filter(|order| **order == Behind::Yielding).count();
        at_work == 0 || at_work + 1 < load.waiting + load.working
    }

    fn take(&mut self, found: &Found<W::Key>, now: Instant) -> Next<W> {
        let (key, rank) = (&found.key, found.rank);
        let slot = self.slots.entry(key.clone()).or_default();
        let in_a_row = &mut self.dispatchers.first_in_a_row;
        *in_a_row = if rank.class == Class::First {
            in_a_row.saturating_add(1)
        } else {
            0
        };
        let behind = slot.behind();
        let phase = std::mem::replace(&mut slot.phase, Phase::Idle);
        if let Some(order) = behind {
            self.dispatchers.behind.insert(key.clone(), order);
        }
        let next = if let Phase::Prelocked {
            lock, token, until, ..
        } = phase
        {
            slot.phase = Phase::Locking { token, until };
            let (key, epoch) = (key.clone(), slot.epoch);
            Next::HandOut(Claim { key, epoch }, lock)
        } else {
            let (claim, attempt) = self.start_attempt(key, now);
            Next::Try(claim, attempt)
        };
        if self.limiter.has_rules() {
            let turns = &mut self.limiter.turns;
            turns.reached(rank.priority, rank.tag);
            if rank.class != Class::First {
                turns.took_turn(rank.priority, |lower| found.passed_over.contains(&lower));
            }
        }
        self.rank(key, now);
        self.wake(now);
        next
    }

    /// Wakes one waiting dispatcher per ready item that it can take.
    pub(super) fn wake(&mut self, now: Instant) {
        let dispatchers = &mut self.dispatchers;
        let asleep = dispatchers.waiting.values_mut();
        let mut asleep: Vec<_> = asleep.filter(|waiter| !waiter.woken).collect();
        for key in self.ready.values() {
            if asleep.is_empty() {
                return;
            }
            let Some(slot) = self.slots.get(key) else {
                continue;
            };
            let fits = |waiter: &&mut Waiter<W>| accepts(&waiter.request.capability, slot, now);
            if let Some(at) = asleep.iter().position(fits) {
                dispatchers.to_wake.push(asleep.swap_remove(at).wake());
            }
        }
        // One dispatcher for the items with permits. It wakes the next one.
        let (slots, limiter) = (&self.slots, &mut self.limiter);
        if !limiter.has_waiting() {
            return;
        }
        let mut takes_one = |waiter: &&mut Waiter<W>| {
            let capability = &waiter.request.capability;
            let first = limiter.first_of_each(now, |key| {
                let slot = slots.get(key);
                slot.is_some_and(|slot| accepts(capability, slot, now))
            });
            !first.is_empty()
        };
        if let Some(waiter) = asleep.into_iter().find(&mut takes_one) {
            dispatchers.to_wake.push(waiter.wake());
        }
    }

    /// Ends long polls that are `outdated` by a ready item. They return nothing, and the runtime
    /// fetches again.
    pub(crate) fn end_fetches(&mut self, outdated: impl Fn(&W::Capability, &W::Known) -> bool) {
        let dispatchers = &mut self.dispatchers;
        for waiter in dispatchers.waiting.values_mut() {
            let ready = self.ready.values().filter_map(|key| self.slots.get(key));
            let mut ready = ready.filter(|slot| matches!(slot.phase, Phase::Idle));
            if waiter.request.caller.is_runtime()
                && ready.any(|slot| outdated(&waiter.request.capability, &slot.known))
            {
                waiter.is_outdated = true;
                dispatchers.to_wake.push(waiter.wake());
            }
        }
    }

    /// Returns the capabilities of the waiting dispatchers.
    pub(crate) fn capabilities(&self) -> Vec<W::Capability> {
        let waiting = self.dispatchers.waiting.values();
        waiting
            .map(|waiter| waiter.request.capability.clone())
            .collect()
    }

    /// Wakes one waiting dispatcher, if one is asleep.
    pub(super) fn nudge(&mut self) {
        self.wake_up_to(1);
    }

    /// Wakes every waiting dispatcher.
    pub(super) fn wake_all(&mut self) {
        self.wake_up_to(usize::MAX);
    }

    fn wake_up_to(&mut self, most: usize) {
        let waiting = self.dispatchers.waiting.values_mut();
        let asleep = waiting.filter(|waiter| !waiter.woken);
        let woken = asleep.take(most).map(Waiter::wake);
        self.dispatchers.to_wake.extend(woken);
    }

    /// Notes the end of a dispatcher's own poll. The dispatcher waits for running attempts for
    /// items that it has found.
    pub(crate) fn end_own_poll(&mut self, id: WaiterId, found: &[W::Key], now: Instant) {
        self.pace.polled(!found.is_empty(), now);
        let undecided = found.iter().filter_map(|key| {
            let slot = self.slots.get(key)?;
            let (key, epoch) = (key.clone(), slot.epoch);
            slot.phase.is_undecided().then_some(Claim { key, epoch })
        });
        let undecided = undecided.collect();
        if let Some(waiter) = self.dispatchers.waiting.get_mut(&id) {
            waiter.must_poll = false;
            waiter.undecided = undecided;
        }
    }

    /// Returns the load.
    pub(crate) fn load(&self) -> Load {
        let waiting = self.dispatchers.waiting.values();
        Load {
            ready: self.ready.len(),
            waiting: waiting
                .filter(|waiter| waiter.request.caller.is_runtime())
                .count(),
            working: self.dispatchers.working,
        }
    }

    /// Returns whether one of these dispatchers will soon take an item of the first class, once it is due: there
    /// are fewer such items than dispatchers. No other item may be ready: it would wait longer.
    pub(crate) fn takes_soon(&self, key: &W::Key, takers: Takers) -> bool {
        let slot = self.slots.get(key);
        let is_open = slot.is_some_and(|slot| {
            let is_running = matches!(slot.phase, Phase::Running { .. });
            matches!(slot.phase, Phase::Idle) || is_running && takers == Takers::Any
        });
        let load = self.load();
        let takers = match takers {
            Takers::Idle => load.waiting,
            Takers::Any => load.waiting + load.working,
        };
        let free = Rank::start_of(Class::Free, Priority::High);
        let before = self.ready.range(..free).take(takers).count();
        is_open && before < takers && load.ready <= before && !self.dispatchers.closing
    }

    /// Returns whether a waiting dispatcher would take an unknown item at once.
    pub(crate) fn takes_at_once(&self, key: &W::Key) -> bool {
        let load = self.load();
        let is_new = !self.slots.contains_key(key) && !self.limiter.has_rules();
        is_new && load.ready < load.waiting && !self.dispatchers.closing
    }

    /// Returns whether there are at most so many ready items, all of this kind.
    pub(crate) fn are_all_ready(&self, most: usize, is_wanted: impl Fn(&W::Key) -> bool) -> bool {
        self.ready.len() <= most && self.ready.iter().all(|(_, key)| is_wanted(key))
    }

    /// Returns whether items wait for permits.
    pub(crate) fn waits_for_permits(&self) -> bool {
        self.limiter.has_waiting()
    }

    /// Returns the request of the last long poll; `None` without one, or after the queue was
    /// closed.
    pub(crate) fn last_request(&self) -> Option<&FetchRequest<W::Capability>> {
        let request = self.dispatchers.last_request.as_ref();
        request.filter(|_| !self.dispatchers.closing)
    }

    /// Returns how many items one dispatcher processes within `time`, by the moving average.
    pub(crate) fn items_within(&self, time: Duration) -> usize {
        self.dispatchers.average.items_within(time)
    }

    /// Returns the handle that wakes a fetch.
    pub(crate) fn notify(&self, id: WaiterId) -> Arc<Notify> {
        let waiter = self.dispatchers.waiting.get(&id);
        waiter.map_or_else(Arc::default, |waiter| waiter.notify.clone())
    }

    /// Stops polls and prelocks.
    pub(crate) fn close(&mut self) {
        self.dispatchers.closing = true;
    }
}

/// Returns the positions of the free items of a priority.
fn range_of(priority: Priority) -> impl RangeBounds<Entry<Rank>> {
    let end = match priority {
        Priority::High => Rank::start_of(Class::Free, Priority::Normal),
        Priority::Normal => Rank::start_of(Class::Free, Priority::Low),
        Priority::Low => Rank::start_of(Class::Backoff, Priority::High),
    };
    Rank::start_of(Class::Free, priority)..end
}

/// Returns whether a dispatcher can take the item of a slot now.
fn is_accepted<W: Work>(
    request: &W::Capability,
    slot: &Slot<W>,
    admits_yielding: bool,
    now: Instant,
) -> bool {
    accepts(request, slot, now) && (admits_yielding || !slot.yields())
}

/// Returns whether a dispatcher can take the item of a slot.
fn accepts<W: Work>(request: &W::Capability, slot: &Slot<W>, now: Instant) -> bool {
    let offer: Option<(_, Offer<'_, W>)> = slot.offer(now);
    offer.is_some_and(|(_, offer)| W::accepts(request, offer))
}
