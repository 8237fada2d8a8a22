//! Tests of the state machine: invariants after any sequence of events, and named promises.

mod guards;
mod invariants;
mod limits;
mod promises;
mod service;

use std::time::{Duration, Instant};

use super::claim::{Caller, Won};
use super::dispatcher::FetchRequest;
use super::limiter::Limiter;
use super::pace::Pace;
use super::queue::{Limits, Queue};
use super::slot::{Memory, Offer, Work};
use crate::stored::documents::Labels;

/// Items with colours. A dispatcher takes items of some colours.
#[derive(Debug)]
struct Paint;

type Colours = u8;

#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    /// The due time of each pending message.
    pending: Vec<Instant>,
    colour: Colours,
    cached: usize,
    /// The time from which on the item must be read from the store.
    load: Option<Instant>,
    is_open: bool,
    is_first: bool,
    is_retry: bool,
    /// A label that is known later than the others.
    name: Option<String>,
}

const MESSAGE: usize = 100;

impl Work for Paint {
    type Key = u8;
    type Known = Known;
    type Attempt = Known;
    type Lock = Colours;
    type Running = u8;
    type Capability = Colours;

    const IS_SCATTERED: bool = true;

    fn due(known: &Known) -> Option<Instant> {
        known.pending.iter().chain(&known.load).min().copied()
    }

    fn accepts(request: &Colours, offer: Offer<'_, Self>) -> bool {
        let colour = match offer {
            Offer::Free(known) => known.colour,
            Offer::Backoff(known) => known.colour & 1,
            Offer::Locked(colour) => *colour,
        };
        colour == 0 || request & colour != 0
    }

    fn is_alike(request: &Colours, other: &Colours) -> bool {
        request == other
    }

    fn is_first(known: &Known) -> bool {
        known.is_first
    }

    fn is_retry(known: &Known) -> bool {
        known.is_retry
    }

    fn is_open_in_backoff(known: &Known) -> bool {
        known.is_open
    }

    fn attempt(known: &Known, _: Instant) -> Known {
        known.clone()
    }

    fn expire(known: &mut Known, now: Instant) {
        known.load = Some(now);
    }

    fn forget_polled(known: &mut Known) {
        known.pending.clear();
        known.load = None;
    }

    fn is_forgettable(known: &Known) -> bool {
        known.pending.is_empty() && known.load.is_none() && known.cached == 0
    }

    fn memory(known: &Known) -> Memory {
        Memory {
            pending: known.pending.len() * MESSAGE,
            cached: known.cached,
        }
    }

    fn labels(known: &Known, noted: Option<&Labels>) -> Option<Labels> {
        known.name.as_ref().map(|name| Labels {
            orchestration: name.clone(),
            ..noted.cloned().unwrap_or_default()
        })
    }

    fn evict_cache(known: &mut Known) -> Known {
        Known {
            cached: std::mem::take(&mut known.cached),
            ..Known::default()
        }
    }

    fn evict_pending(known: &mut Known, now: Instant) -> Known {
        if known.pending.iter().any(|due| *due <= now) {
            known.load = Some(now);
        }
        Known {
            pending: std::mem::take(&mut known.pending),
            ..Known::default()
        }
    }
}

const LIMITS: Limits = Limits {
    memory: Memory {
        pending: 10 * MESSAGE,
        cached: 1_000,
    },
    slots: 12,
};

const LOCK: Duration = Duration::from_secs(5);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns a queue that knows a dispatcher of all colours.
fn queue(now: Instant) -> Queue<Paint> {
    let pace = Pace::new(ms(10), ms(80), now);
    let mut queue = Queue::new(pace, LIMITS, Limiter::new("this", now));
    queue.dispatchers.note_kind(&Colours::MAX);
    queue
}

/// Returns each waiting dispatcher's capability, and whether it was woken.
fn waiting(queue: &Queue<Paint>) -> impl Iterator<Item = (Colours, bool)> {
    let waiting = queue.dispatchers.waiting.values();
    waiting.map(|waiter| (waiter.request.capability, waiter.woken))
}

fn request(capability: Colours) -> FetchRequest<Colours> {
    FetchRequest {
        capability,
        lock_timeout: LOCK,
        caller: Caller::Runtime,
    }
}

fn won<L>(lock: L, token: &str, until: Instant) -> Won<L> {
    Won {
        lock,
        token: token.to_owned(),
        until,
    }
}
