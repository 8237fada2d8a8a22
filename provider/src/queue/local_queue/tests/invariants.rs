//! Invariants that hold after any sequence of events.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::limits::{check_limits, painted, rules};
use super::service::Service;
use super::{Colours, Known, LIMITS, LOCK, Paint, ms, queue, request, waiting, won};
use crate::queue::local_queue::claim::{Caller, Claim};
use crate::queue::local_queue::dispatcher::{Next, WaiterId};
use crate::queue::local_queue::queue::Queue;
use crate::queue::local_queue::slot::{Class, Memory, Offer, Phase, Slot, Work};

/// Asserts that an item that is offered is ready or parked.
fn check_place(slot: &Slot<Paint>, now: Instant) {
    let offered = slot.offer(now).map(|(class, _)| class);
    let ready = slot.rank.map(|(rank, _)| rank.class);
    if slot.is_limited() && !slot.counts() {
        assert_eq!(ready, None, "it needs permits: {slot:?}");
        let is_behind = matches!(slot.phase, Phase::Behind { .. }) && offered.is_some();
        let waits = is_behind || matches!(offered, Some(Class::First | Class::Free));
        assert_eq!(waits, slot.arrival.is_some(), "{slot:?}");
    } else {
        assert_eq!(offered, ready);
    }
    assert_eq!(slot.is_counted, slot.is_limited() && slot.counts());
}

/// Asserts everything that must hold between two events.
fn check(queue: &Queue<Paint>, now: Instant) {
    let mut memory = Memory::default();
    let mut running = 0;
    for (key, slot) in &queue.slots {
        check_place(slot, now);
        assert_eq!(slot.wakes_at(now), slot.timer.map(|(at, _)| at), "{key}");
        if let Some(rank) = slot.rank {
            assert_eq!(queue.ready.get(&rank), Some(key));
        }
        if let Some(timer) = slot.timer {
            assert_eq!(queue.timers.get(&timer), Some(key));
            assert!(timer.0 > now, "the timer of {key} is late");
        }
        if let Some(idle) = slot.idle {
            assert_eq!(queue.idle.get(&idle), Some(key));
        }
        let holds = !slot.phase.is_busy() && Paint::memory(&slot.known).pending > 0;
        let due = Paint::due(&slot.known).filter(|_| holds);
        assert_eq!(slot.holding.map(|(at, _)| at), due);
        if let Some(holding) = slot.holding {
            assert_eq!(queue.holding.get(&holding), Some(key));
        }
        if let Some(polled) = slot.polled {
            assert_eq!(queue.polled.get(&polled), Some(key));
        }
        if slot.phase.until().is_some() {
            assert!(slot.timer.is_some(), "{key} never leaves {:?}", slot.phase);
        } else if slot.phase.is_undecided() {
            assert_eq!(slot.rank, None, "{key} is claimed");
        } else if Paint::due(&slot.known).is_some() && !slot.is_reserved() {
            assert!(
                slot.rank.is_some() || slot.timer.is_some() || slot.arrival.is_some(),
                "{key} is never offered"
            );
        } else {
            assert!(
                slot.is_reserved() || !Paint::is_forgettable(&slot.known),
                "{key} is kept without need"
            );
        }
        running += usize::from(matches!(slot.phase, Phase::Running { .. }));
        let used = Paint::memory(&slot.known);
        memory.pending += used.pending;
        memory.cached += used.cached;
    }
    assert_eq!(queue.memory, memory);
    assert_eq!(queue.all_running().len(), running);
    let counts =
        |count: fn(&Slot<Paint>) -> bool| queue.slots.values().filter(|slot| count(slot)).count();
    assert_eq!(queue.ready.len(), counts(|slot| slot.rank.is_some()));
    assert_eq!(queue.timers.len(), counts(|slot| slot.timer.is_some()));
    assert_eq!(queue.idle.len(), counts(|slot| slot.idle.is_some()));
    assert_eq!(queue.holding.len(), counts(|slot| slot.holding.is_some()));
    assert_eq!(queue.polled.len(), counts(|slot| slot.polled.is_some()));
    check_memory(queue);
    check_wakes(queue, now);
}

/// Asserts that the limits hold for all evictable state.
fn check_memory(queue: &Queue<Paint>) {
    let known = |key: &u8| &queue.slots[key].known;
    let cached: usize = queue.idle.values().map(|key| known(key).cached).sum();
    assert!(cached == 0 || queue.memory.cached <= LIMITS.memory.cached);
    let waiting = queue.ready.values().chain(queue.timers.values());
    let waiting = waiting.filter(|key| !queue.slots[*key].phase.is_busy());
    let pending: usize = waiting.map(|key| known(key).pending.len()).sum();
    assert!(pending == 0 || queue.memory.pending <= LIMITS.memory.pending);
}

/// Asserts that a dispatcher sleeps only while no item is ready for it, or another suitable
/// dispatcher was woken.
fn check_wakes(queue: &Queue<Paint>, now: Instant) {
    for key in queue.ready.values() {
        let slot = &queue.slots[key];
        let (_, offer) = slot.offer(now).expect("it is ready");
        let mut waiting: Vec<(Colours, bool)> = waiting(queue).collect();
        let offer_colour = match offer {
            Offer::Free(known) => known.colour,
            Offer::Backoff(known) => known.colour & 1,
            Offer::Locked(colour) => *colour,
        };
        waiting.retain(|(request, _)| offer_colour == 0 || request & offer_colour != 0);
        let asleep = waiting.iter().any(|(_, woken)| !woken);
        let woken = waiting.iter().any(|(_, woken)| *woken);
        assert!(
            !asleep || woken,
            "{key} is ready and no dispatcher is woken"
        );
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// Rules, by number.
    Rules(u8),
    /// The service answers the requests of limits.
    Serve,
    Reserve(u8),
    Unreserve(u8),
    Sleep(u64),
    Learn {
        key: u8,
        in_ms: u64,
        colour: Colours,
        recheck: bool,
    },
    Cache {
        key: u8,
        bytes: usize,
    },
    Poll {
        keys: Vec<u8>,
        scope: Colours,
    },
    Fetch(Colours),
    Next(usize),
    Leave(usize),
    Lock(usize),
    HandOut(usize),
    Release {
        claim: usize,
        clear: bool,
    },
    BackOff {
        claim: usize,
        open: bool,
    },
    Drop(usize),
    LoseRace(usize),
    Prelock(u8),
    Win(usize),
    Finish(usize),
    Extend(usize),
    Unused,
    Releasing,
    Close,
}

fn event() -> impl Strategy<Value = Event> {
    use Event::*;
    let key = || 0_u8..16;
    let number = || 0_usize..8;
    let colour = || 0_u8..4;
    prop_oneof![
        (0_u64..400).prop_map(Sleep),
        Just(Sleep(6_000)),
        (key(), 0_u64..1_000, colour(), any::<bool>()).prop_map(|(key, in_ms, colour, recheck)| {
            let in_ms = in_ms.saturating_sub(500);
            Learn {
                key,
                in_ms,
                colour,
                recheck,
            }
        }),
        (key(), 0_usize..400).prop_map(|(key, bytes)| Cache { key, bytes }),
        (prop::collection::vec(key(), 0..6), colour())
            .prop_map(|(keys, scope)| Poll { keys, scope }),
        colour().prop_map(Fetch),
        number().prop_map(Next),
        number().prop_map(Next),
        number().prop_map(Leave),
        number().prop_map(Lock),
        number().prop_map(HandOut),
        (number(), any::<bool>()).prop_map(|(claim, clear)| Release { claim, clear }),
        (number(), any::<bool>()).prop_map(|(claim, open)| BackOff { claim, open }),
        number().prop_map(Drop),
        number().prop_map(LoseRace),
        key().prop_map(Prelock),
        number().prop_map(Win),
        number().prop_map(Finish),
        number().prop_map(Extend),
        (0_u8..5).prop_map(Rules),
        Just(Serve),
        key().prop_map(Reserve),
        key().prop_map(Unreserve),
        Just(Unused),
        Just(Releasing),
        Just(Close),
    ]
}

/// A queue and the claims of its users.
struct Run {
    queue: Queue<Paint>,
    now: Instant,
    waiters: Vec<WaiterId>,
    claims: Vec<Claim<u8>>,
    tokens: Vec<String>,
    drawn: u32,
    service: Service,
    version: i64,
}

impl Run {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            queue: queue(now),
            now,
            waiters: Vec::new(),
            claims: Vec::new(),
            tokens: Vec::new(),
            drawn: 0,
            service: Service::default(),
            version: 0,
        }
    }

    fn token(&mut self) -> String {
        self.drawn += 1;
        self.drawn.to_string()
    }

    /// Takes a claim: a guard ends it once.
    fn take_claim(&mut self, at: usize) -> Option<Claim<u8>> {
        let count = self.claims.len();
        (count > 0).then(|| self.claims.swap_remove(at % count))
    }

    fn lock_token(&self, at: usize) -> Option<String> {
        let at = at % self.tokens.len().max(1);
        self.tokens.get(at).cloned()
    }

    fn apply(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Sleep(time) => {
                self.now += ms(time);
                self.queue.tick(self.now);
            }
            Event::Learn {
                key,
                in_ms,
                colour,
                recheck,
            } => {
                let learn = |known: &mut Known| {
                    known.pending.push(now + ms(in_ms));
                    known.colour = colour;
                };
                if recheck {
                    self.queue.end_backoff(&key);
                }
                self.queue.label(&key, || painted(colour));
                self.queue.learn(&key, now, learn);
            }
            Event::Cache { key, bytes } => {
                self.queue.learn(&key, now, |known| known.cached = bytes);
            }
            Event::Poll { keys, scope } => self.poll(&keys, scope),
            Event::Rules(_) | Event::Serve | Event::Reserve(_) | Event::Unreserve(_) => {
                self.limit(&event);
            }
            Event::Fetch(colours) => self.waiters.push(self.queue.register(request(colours))),
            Event::Next(at) => self.next(at),
            Event::Leave(at) if !self.waiters.is_empty() => {
                let id = self.waiters.swap_remove(at % self.waiters.len());
                self.queue.leave(id, now);
            }
            Event::LoseRace(at) if !self.claims.is_empty() => {
                let key = self.claims[at % self.claims.len()].key;
                self.queue.lost_race(&key, now);
            }
            Event::Leave(_) | Event::LoseRace(_) => {}
            Event::Close => self.queue.close(),
            Event::Unused => {
                for (claim, _) in self.queue.take_unused(now, now) {
                    self.queue.released(&claim, now);
                }
            }
            Event::Releasing => {
                for (claim, _) in self.queue.take_releasing() {
                    self.queue.released(&claim, now);
                }
            }
            Event::Finish(at) | Event::Extend(at) => self.held(&event, at),
            event => self.claimed(&event),
        }
        self.queue.take_woken();
        self.queue.take_garbage();
    }

    fn limit(&mut self, event: &Event) {
        let now = self.now;
        match event {
            Event::Rules(number) => {
                self.version += 1;
                self.queue.set_rules(rules(*number), self.version, now);
            }
            Event::Serve => self.service.serve(&mut self.queue, now),
            Event::Reserve(key) => {
                self.queue.label(key, || painted(key % 4));
                let _reserved = self.queue.reserve(key, &0, now);
            }
            Event::Unreserve(key) => self.queue.unreserve(key, now),
            _ => {}
        }
    }

    fn poll(&mut self, keys: &[u8], scope: Colours) {
        let number = self.queue.number_poll();
        for key in keys {
            let now = self.now;
            self.queue.learn_from_poll(number, key, |known| {
                known.pending = vec![now];
            });
        }
        let covers = |known: &Known| known.colour == 0 || scope & known.colour != 0;
        self.queue.finish_poll(number, keys, covers, self.now);
    }

    fn next(&mut self, at: usize) {
        if self.waiters.is_empty() {
            return;
        }
        let id = self.waiters[at % self.waiters.len()];
        self.queue.tick(self.now);
        let before: HashMap<_, _> = self.queue.usage().into_iter().collect();
        let next = self.queue.next(id, self.now);
        for (key, usage) in self.queue.usage() {
            let running = before.get(&key).map_or(0, |usage| usage.running);
            let most = self.service.permits(&key).unwrap_or(usize::MAX);
            assert!(
                usage.running <= running.max(most),
                "started beyond its limit: {usage:?} of {most}"
            );
        }
        match next {
            Next::Try(claim, _) | Next::HandOut(claim, _) => self.claims.push(claim),
            _ => {}
        }
    }

    fn held(&mut self, event: &Event, at: usize) {
        let now = self.now;
        let Some(token) = self.lock_token(at) else {
            return;
        };
        match event {
            Event::Finish(_) => self
                .queue
                .finish(&token, now, |known| known.pending.clear()),
            _ => self.queue.extend(&token, now + LOCK, now),
        }
    }

    fn claimed(&mut self, event: &Event) {
        let now = self.now;
        let until = now + LOCK;
        if let Event::Prelock(key) = event {
            let claimed = self.queue.claim(key, now);
            self.claims.extend(claimed.map(|(claim, _)| claim));
            return;
        }
        let at = match event {
            Event::Lock(at) | Event::HandOut(at) | Event::Drop(at) | Event::Win(at) => *at,
            Event::Release { claim, .. } | Event::BackOff { claim, .. } => *claim,
            _ => return,
        };
        let Some(claim) = self.take_claim(at) else {
            return;
        };
        let token = self.token();
        match event {
            Event::Lock(_) => {
                self.queue.locking(&claim, &token, until, now);
                self.claims.push(claim);
            }
            Event::HandOut(_) => {
                let running = won(0, &token, until);
                let learn = |known: &mut Known| known.load = None;
                let handed_out = self
                    .queue
                    .hand_out(&claim, running, Caller::Runtime, now, learn);
                // Without a lease, what was claimed does not begin.
                if handed_out.is_none() {
                    self.tokens.push(token);
                }
            }
            Event::Release { clear, .. } => self.queue.release(&claim, now, |known| {
                if *clear {
                    *known = Known::default();
                }
            }),
            Event::BackOff { open, .. } => {
                let until = now + ms(700);
                self.queue
                    .back_off(&claim, until, now, |known| known.is_open = *open);
            }
            Event::Drop(_) => self.queue.dropped(&claim, now),
            _ => self
                .queue
                .prelocked(&claim, won(2, &token, until), now, |_| {}),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_invariant_holds_after_any_sequence_of_events(
        events in prop::collection::vec(event(), 1..120)
    ) {
        let mut run = Run::new();
        for event in events {
            run.apply(event);
            check(&run.queue, run.now);
            check_limits(&mut run.queue, run.now);
        }
        // Whatever happened, no item stays claimed, locked or in backoff once its guard is gone.
        for claim in std::mem::take(&mut run.claims) {
            run.queue.dropped(&claim, run.now);
        }
        for key in 0..16 {
            run.queue.unreserve(&key, run.now);
        }
        run.now += Duration::from_secs(60);
        run.queue.tick(run.now);
        check(&run.queue, run.now);
        prop_assert!(run.queue.slots.values().all(|slot| matches!(slot.phase, Phase::Idle)));
    }
}
