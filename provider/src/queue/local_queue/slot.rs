//! One item of the queue: its known state and its phase.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_model::Timestamp;

use super::limiter::{Arrival, Limiter, Origin, Priority, Selected, Tag};
use crate::stored::documents::Labels;

/// The type of a queue's items.
pub(crate) trait Work: Sized + 'static {
    /// Identifies an item.
    type Key: Clone + Debug + Ord + Hash + Send + Sync;
    /// The known state of an item. The default knows nothing.
    type Known: Debug + Default + Send;
    /// The state that a dispatcher uses to try an item.
    type Attempt: Debug + Send;
    /// A prelock of an item.
    type Lock: Debug + Send;
    /// An item that the runtime is processing, by lock token.
    type Running: Debug + Send;
    /// The items that a dispatcher can process.
    type Capability: Clone + Debug + Send + Sync;

    /// Whether each process takes the items of a poll in an order of its own.
    const IS_SCATTERED: bool;

    /// Returns the time at which the item is due; `None` without pending work.
    fn due(known: &Self::Known) -> Option<Instant>;

    /// Returns the time from which on the item has been due in any process, if that is known.
    fn due_since(_: &Self::Known) -> Option<Timestamp> {
        None
    }

    /// Returns whether a dispatcher can take an offered item.
    fn accepts(request: &Self::Capability, offer: Offer<'_, Self>) -> bool;

    /// Returns whether this dispatcher, or one of this process that is alike, can take the item.
    fn suits(request: &Self::Capability, known: &Self::Known) -> bool {
        Self::accepts(request, Offer::Free(known))
    }

    /// Returns whether the same items suit two dispatchers.
    fn is_alike(request: &Self::Capability, other: &Self::Capability) -> bool;

    /// Returns whether an idle item is handed out before others.
    fn is_first(known: &Self::Known) -> bool;

    /// Returns whether the last attempt at the item has failed, so that the next one may fail, too. One of
    /// several dispatchers stays free of such items.
    fn is_retry(_: &Self::Known) -> bool {
        false
    }

    /// Returns whether some dispatchers may take the item during its backoff.
    fn is_open_in_backoff(known: &Self::Known) -> bool;

    /// Returns the state that a dispatcher needs for its attempt at `now`. The state stays known
    /// until the attempt ends.
    fn attempt(known: &Self::Known, now: Instant) -> Self::Attempt;

    /// Forgets state after the item's lock expired or was released with an unknown result.
    fn expire(known: &mut Self::Known, now: Instant);

    /// Forgets state from polls after a covering poll has not found the item.
    fn forget_polled(known: &mut Self::Known);

    /// Returns whether nothing is known that is worth a slot.
    fn is_forgettable(known: &Self::Known) -> bool;

    /// Returns the bytes of memory that the known state takes.
    fn memory(known: &Self::Known) -> Memory;

    /// Returns whether limits concern the item.
    fn is_limitable(_: &Self::Known) -> bool {
        true
    }

    /// Returns the labels of an item, if they depend on what is known of it; `noted` are those that
    /// it was noted with. `None` if all its labels are noted.
    fn labels(known: &Self::Known, noted: Option<&Labels>) -> Option<Labels>;

    /// Takes the cached state.
    fn evict_cache(known: &mut Self::Known) -> Self::Known;

    /// Takes the pending messages. A due item is then read from the store; a poll finds any other.
    fn evict_pending(known: &mut Self::Known, now: Instant) -> Self::Known;
}

/// An item offered to a dispatcher.
pub(crate) enum Offer<'a, W: Work> {
    /// A free item.
    Free(&'a W::Known),
    /// An item in backoff for most dispatchers.
    Backoff(&'a W::Known),
    /// A prelocked item.
    Locked(&'a W::Lock),
}

/// The bytes of memory, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Pending messages.
    pub(crate) pending: usize,
    /// State cached between two turns.
    pub(crate) cached: usize,
}

/// Numbers the claims of a queue. A claim with an older number is void.
pub(super) type Epoch = u64;

/// Numbers the polls of a queue.
pub(crate) type PollNumber = u64;

/// The position of a slot in an order, and the number of its arrival there.
pub(super) type Entry<P> = (P, u64);

/// The priority of an item. Items of a class are handed out before those of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Prelocked, or reserved for the next turn of an instance: neither should age.
    First,
    Free,
    Backoff,
}

/// The position of a ready item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) class: Class,
    pub(super) priority: Priority,
    pub(super) tag: Tag,
}

impl Rank {
    /// Returns the entry before all items of a class with this priority.
    pub(super) fn start_of(class: Class, priority: Priority) -> Entry<Self> {
        let rank = Self {
            class,
            priority,
            tag: 0,
        };
        (rank, 0)
    }
}

/// The phase of an item in this process.
#[derive(Debug)]
pub(crate) enum Phase<L> {
    /// No dispatcher has claimed the item. It is ready when it is due.
    Idle,
    /// A dispatcher has claimed the item, and has sent no lock request yet. The claim ends with its
    /// guard, however long that takes.
    Trying,
    /// A lock was requested, or acquired and not handed out yet. The claim ends with its guard; if
    /// that is dropped, the lock expires at `until`.
    Locking { token: String, until: Instant },
    /// Locked by an earlier batch, waiting for a dispatcher.
    Prelocked {
        lock: Box<L>,
        token: String,
        until: Instant,
        since: Instant,
    },
    /// The runtime is processing the item.
    Running { token: String, until: Instant },
    /// The lock is to be released, or expires.
    Releasing { token: String, until: Instant },
    /// In backoff, except for dispatchers that accept the item anyway.
    Backoff { until: Instant },
    /// Ready when no other item is: its physical partition refuses requests or is slow, so that it would
    /// hold its dispatcher for long.
    Behind { until: Instant, order: Behind },
}

/// How an item goes behind others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Behind {
    /// It is handed out when no other is ready.
    InOrder,
    /// The same, and one of several dispatchers stays free for the others.
    Yielding,
}

impl<L> Phase<L> {
    /// Returns the time at which the phase ends; `None` for a phase that only an event ends.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Idle | Self::Trying | Self::Locking { .. } => None,
            Self::Prelocked { until, .. }
            | Self::Running { until, .. }
            | Self::Releasing { until, .. }
            | Self::Backoff { until }
            | Self::Behind { until, .. } => Some(*until),
        }
    }

    /// Returns whether an attempt is running.
    pub(super) fn is_undecided(&self) -> bool {
        matches!(self, Self::Trying | Self::Locking { .. })
    }

    /// Returns whether this process has claimed the item.
    pub(super) fn is_busy(&self) -> bool {
        !matches!(
            self,
            Self::Idle | Self::Backoff { .. } | Self::Behind { .. }
        )
    }

    /// Returns whether a dispatcher is at work for the item.
    pub(super) fn is_at_work(&self) -> bool {
        self.is_undecided() || matches!(self, Self::Running { .. })
    }
}

/// The slot of an item.
#[derive(Debug)]
pub(crate) struct Slot<W: Work> {
    pub(super) known: W::Known,
    pub(super) phase: Phase<W::Lock>,
    /// The claim that the phase belongs to.
    pub(super) epoch: Epoch,
    /// The last poll that found the item, while all its known state comes from polls.
    pub(super) polled: Option<Entry<PollNumber>>,
    pub(super) rank: Option<Entry<Rank>>,
    pub(super) timer: Option<Entry<Instant>>,
    /// The due time, while the slot waits with pending messages.
    pub(super) holding: Option<Entry<Instant>>,
    /// The position in the order of eviction.
    pub(super) idle: Option<Entry<()>>,
    /// What rules select the item by, if its queue has limits.
    pub(super) labels: Option<Arc<Labels>>,
    /// The rules that select the item.
    pub(super) selected: Option<Arc<Selected>>,
    /// How many wait for the end of a batch that may lock the item.
    pub(super) reservations: u8,
    /// Whether the limits count the item as running.
    pub(super) is_counted: bool,
    /// Whether the runtime has processed the item since it has been counted.
    pub(super) has_begun: bool,
    /// The position among items of other keys, while the item is ready or waits for permits.
    pub(super) tag: Option<Tag>,
    /// Whether the item was chosen by its tag, which it keeps until it has ended.
    pub(super) is_chosen: bool,
    /// The number of its arrival, while it waits for permits or has some.
    pub(super) arrival: Option<u64>,
}

impl<W: Work> Default for Slot<W> {
    fn default() -> Self {
        Self {
            known: W::Known::default(),
            phase: Phase::Idle,
            epoch: 0,
            polled: None,
            rank: None,
            timer: None,
            holding: None,
            idle: None,
            labels: None,
            selected: None,
            reservations: 0,
            is_counted: false,
            has_begun: false,
            tag: None,
            is_chosen: false,
            arrival: None,
        }
    }
}

impl<W: Work> Slot<W> {
    pub(super) fn is_reserved(&self) -> bool {
        self.reservations > 0
    }

    /// Returns whether the limits of the item's keys count it as running.
    pub(super) fn counts(&self) -> bool {
        self.is_reserved() || self.phase.is_busy()
    }

    /// Returns whether the item needs permits.
    pub(super) fn is_limited(&self) -> bool {
        let selected = self.selected.as_ref();
        selected.is_some_and(|selected| selected.is_limited())
    }

    /// Returns how the item goes behind others.
    pub(super) fn behind(&self) -> Option<Behind> {
        match self.phase {
            _ if W::is_retry(&self.known) => Some(Behind::Yielding),
            Phase::Behind { order, .. } => Some(order),
            _ => None,
        }
    }

    /// Returns whether one of several dispatchers stays free of the item.
    pub(super) fn yields(&self) -> bool {
        self.behind() == Some(Behind::Yielding)
    }

    /// Returns the offer to dispatchers at `now`; `None` when the item is not available.
    pub(super) fn offer(&self, now: Instant) -> Option<(Class, Offer<'_, W>)> {
        let is_due = || W::due(&self.known).is_some_and(|due| due <= now);
        match &self.phase {
            _ if self.is_reserved() => None,
            Phase::Idle if is_due() => {
                let class = if W::is_first(&self.known) {
                    Class::First
                } else {
                    Class::Free
                };
                Some((class, Offer::Free(&self.known)))
            }
            Phase::Prelocked { lock, .. } => Some((Class::First, Offer::Locked(&**lock))),
            Phase::Backoff { .. } if W::is_open_in_backoff(&self.known) && is_due() => {
                Some((Class::Backoff, Offer::Backoff(&self.known)))
            }
            Phase::Behind { .. } if is_due() => Some((Class::Backoff, Offer::Free(&self.known))),
            _ => None,
        }
    }

    /// Returns the time at which the slot must be placed again; `None` without one.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let due = W::due(&self.known).filter(|due| *due > now);
        match &self.phase {
            Phase::Idle => due,
            Phase::Backoff { until } | Phase::Behind { until, .. } => {
                Some(due.map_or(*until, |due| due.min(*until)))
            }
            phase => phase.until(),
        }
    }

    /// Counts the slot for the limits of its keys, and returns its place among the ready slots: none while
    /// it waits for permits. A prelocked item has started already.
    pub(super) fn limit(
        &mut self,
        limiter: &mut Limiter<W::Key>,
        class: Option<Class>,
        key: &W::Key,
        sequence: &mut u64,
        now: Instant,
    ) -> Option<Rank> {
        self.count(limiter, key, sequence, now);
        if self.counts() {
            self.is_chosen |= self.tag.is_some();
        } else if std::mem::take(&mut self.is_chosen) {
            self.tag = None;
        }
        if let Some(selected) = self.selected.clone()
            && selected.is_limited()
            && !self.counts()
            && !W::is_limitable(&self.known)
        {
            self.leave(limiter, &selected, now);
        }
        if class.is_some() {
            self.select(limiter);
        }
        let Some(selected) = self.selected.clone() else {
            return class.map(|class| Rank {
                class,
                priority: Priority::default(),
                tag: 0,
            });
        };
        let counts = self.counts();
        if selected.is_limited() && !counts {
            let behind = match self.phase {
                Phase::Behind { until, .. } => Some(until),
                _ => None,
            };
            if behind.is_some() && class.is_some()
                || matches!(class, Some(Class::First | Class::Free))
            {
                self.wait(limiter, &selected, key, sequence, behind.unwrap_or(now));
            } else {
                self.leave(limiter, &selected, now);
            }
            return None;
        }
        let Some(class) = class else {
            self.leave(limiter, &selected, now);
            return None;
        };
        // A reserved turn is handed out at once, whatever its key has had. It takes no tag: a key
        // with many of them would otherwise wait with its other turns until all keys have caught up.
        let tag = if class == Class::First && !counts {
            0
        } else {
            *self.tag.get_or_insert_with(|| limiter.tag(&selected))
        };
        Some(Rank {
            class,
            priority: selected.priority,
            tag,
        })
    }

    /// Counts the item for the limits of its keys, once it starts or ends.
    fn count(
        &mut self,
        limiter: &mut Limiter<W::Key>,
        key: &W::Key,
        sequence: &mut u64,
        now: Instant,
    ) {
        let counts = self.counts();
        let selected = self.selected.clone().filter(|it| it.is_limited());
        if let Some(selected) = selected.filter(|_| counts != self.is_counted) {
            self.is_counted = counts;
            let arrival = self.arrive(sequence);
            if counts {
                limiter.start(key, arrival, &selected, now);
            } else {
                limiter.end(arrival, self.has_begun, now);
                self.arrival = None;
                self.has_begun = false;
            }
        }
        self.has_begun |= self.is_counted && matches!(self.phase, Phase::Running { .. });
    }

    /// Lets the item wait for permits.
    fn wait(
        &mut self,
        limiter: &mut Limiter<W::Key>,
        selected: &Selected,
        key: &W::Key,
        sequence: &mut u64,
        at: Instant,
    ) {
        // One that goes behind others is in the order as if it were due at the end of that time.
        let due = W::due_since(&self.known).filter(|_| !matches!(self.phase, Phase::Behind { .. }));
        let due = due.map(|due| Duration::from_millis(due.as_millis()));
        let arrival = Arrival {
            item: self.arrive(sequence),
            tag: *self.tag.get_or_insert_with(|| limiter.tag(selected)),
            due: due.unwrap_or_else(|| limiter.time(at)),
            origin: match self.polled {
                Some(_) => Origin::Found,
                None => Origin::Own,
            },
        };
        limiter.wait(key, selected, &arrival);
    }

    fn arrive(&mut self, sequence: &mut u64) -> u64 {
        *self.arrival.get_or_insert_with(|| {
            *sequence += 1;
            *sequence
        })
    }

    /// Selects the rules of an item whose labels depend on what is known of it, before the item
    /// takes its place.
    pub(super) fn select(&mut self, limiter: &Limiter<W::Key>) {
        if self.tag.is_none()
            && limiter.has_rules()
            && let Some(labels) = W::labels(&self.known, self.labels.as_deref())
        {
            self.selected = limiter.select(&labels, W::is_limitable(&self.known));
        }
    }

    /// Notes that the item is not ready any more, and does not wait for permits.
    pub(super) fn leave(
        &mut self,
        limiter: &mut Limiter<W::Key>,
        selected: &Selected,
        now: Instant,
    ) {
        let tag = self.tag.take_if(|_| !self.is_chosen);
        let arrival = self.arrival.filter(|_| !self.is_counted);
        let was_waiting = arrival.is_some_and(|arrival| limiter.is_waiting(arrival));
        if let Some(arrival) = arrival {
            limiter.leave(arrival, now);
            self.arrival = None;
        }
        if (self.rank.is_some() || was_waiting)
            && !self.counts()
            && let Some(tag) = tag
        {
            limiter.untag(selected, tag);
        }
    }
}
