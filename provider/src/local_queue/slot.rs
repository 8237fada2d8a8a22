//! One item of the queue: what is known of it, and its phase.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

/// What the items of a queue are.
pub(crate) trait Work: Sized + 'static {
    /// Identifies an item.
    type Key: Clone + Debug + Ord + Hash + Send + Sync;
    /// What this process knows of an item. The default knows nothing.
    type Known: Debug + Default + Send;
    /// What a dispatcher takes along to try an item.
    type Attempt: Debug + Send;
    /// A lock that was won before a dispatcher asked for the item.
    type Lock: Debug + Send;
    /// An item as the runtime works on it, by lock token.
    type Running: Debug + Send + Sync;
    /// What a dispatcher can work on.
    type Ask: Clone + Debug + Send + Sync;

    /// When there is something to do; `None` while nothing is known of it.
    fn due(known: &Self::Known) -> Option<Instant>;

    /// Whether a dispatcher can take what it is offered.
    fn accepts(ask: &Self::Ask, offer: Offer<'_, Self>) -> bool;

    /// Whether some dispatchers may take the item while the others leave it alone.
    fn is_open_in_backoff(known: &Self::Known) -> bool;

    /// What a dispatcher needs for its attempt at `now`. It stays known until the attempt has come to a result.
    fn attempt(known: &Self::Known, now: Instant) -> Self::Attempt;

    /// The item's lock ended by its time, or was given back without knowing what it left.
    fn expire(known: &mut Self::Known, now: Instant);

    /// A later poll that should have found the item did not find it.
    fn forget_polled(known: &mut Self::Known);

    /// Whether nothing is known that is worth a slot.
    fn is_forgettable(known: &Self::Known) -> bool;

    /// Bytes of memory that are taken by what is known.
    fn memory(known: &Self::Known) -> Memory;

    /// Takes out what is cached between two turns.
    fn evict_cache(known: &mut Self::Known) -> Self::Known;

    /// Takes out what is pending. An item that stays due is read from the store then; any other is found by a poll.
    fn evict_pending(known: &mut Self::Known, now: Instant) -> Self::Known;
}

/// What a dispatcher is offered.
pub(crate) enum Offer<'a, W: Work> {
    /// An item that is to be tried.
    Free(&'a W::Known),
    /// An item that other dispatchers leave alone.
    Backoff(&'a W::Known),
    /// An item whose lock this process holds already.
    Locked(&'a W::Lock),
}

/// Bytes of memory, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Messages that wait.
    pub(crate) pending: usize,
    /// What is kept between two turns.
    pub(crate) cached: usize,
}

/// Numbers the claims of a queue. A claim with an older number has lost its item.
pub(super) type Epoch = u64;

/// Numbers the polls of a queue.
pub(crate) type PollNumber = u64;

/// The place of an item in the order of those that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(pub(super) Class, pub(super) u64);

/// Items of a class are handed out before those of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Locked already: the lock must not age.
    Locked,
    Free,
    Backoff,
}

/// Who works on an item.
#[derive(Debug)]
pub(super) enum Phase<L> {
    /// Nobody. The item is ready when it is due.
    Idle,
    /// A dispatcher looks at it; no lock was asked for yet.
    Trying { until: Instant },
    /// A lock was asked for, or won and not handed out yet.
    Locking { token: String, until: Instant },
    /// Locked by an earlier batch, waiting for a dispatcher.
    Prelocked {
        lock: Box<L>,
        token: String,
        until: Instant,
        since: Instant,
    },
    /// The runtime works on it.
    Running { token: String, until: Instant },
    /// Nobody wants the lock any more; it is to be given back, or ends by itself.
    Releasing { token: String, until: Instant },
    /// Left alone, but for dispatchers that accept it all the same.
    Backoff { until: Instant },
}

impl<L> Phase<L> {
    /// When the phase ends by itself.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Idle => None,
            Self::Trying { until }
            | Self::Locking { until, .. }
            | Self::Prelocked { until, .. }
            | Self::Running { until, .. }
            | Self::Releasing { until, .. }
            | Self::Backoff { until } => Some(*until),
        }
    }

    /// Whether an attempt is under way whose result nobody knows yet.
    pub(super) fn is_undecided(&self) -> bool {
        matches!(self, Self::Trying { .. } | Self::Locking { .. })
    }

    /// Whether this process works on the item.
    pub(super) fn is_busy(&self) -> bool {
        !matches!(self, Self::Idle | Self::Backoff { .. })
    }
}

/// An item.
#[derive(Debug)]
pub(super) struct Slot<W: Work> {
    pub(super) known: W::Known,
    pub(super) phase: Phase<W::Lock>,
    /// The claim that the phase belongs to.
    pub(super) epoch: Epoch,
    /// The last poll that found the item, while nothing is known of it but from polls.
    pub(super) polled: Option<PollNumber>,
    pub(super) rank: Option<Rank>,
    pub(super) timer: Option<(Instant, u64)>,
    /// Its timer, while it waits and holds something pending.
    pub(super) holding: Option<(Instant, u64)>,
    /// Its place in the order in which idle slots are given up.
    pub(super) idle: Option<u64>,
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
        }
    }
}

impl<W: Work> Slot<W> {
    /// What dispatchers are offered at `now`, if anything.
    pub(super) fn offer(&self, now: Instant) -> Option<(Class, Offer<'_, W>)> {
        let is_due = || W::due(&self.known).is_some_and(|due| due <= now);
        match &self.phase {
            Phase::Idle if is_due() => Some((Class::Free, Offer::Free(&self.known))),
            Phase::Prelocked { lock, .. } => Some((Class::Locked, Offer::Locked(&**lock))),
            Phase::Backoff { .. } if W::is_open_in_backoff(&self.known) && is_due() => {
                Some((Class::Backoff, Offer::Backoff(&self.known)))
            }
            _ => None,
        }
    }

    /// When the slot must be looked at again.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let due = W::due(&self.known).filter(|due| *due > now);
        match &self.phase {
            Phase::Idle => due,
            Phase::Backoff { until } => Some(due.map_or(*until, |due| due.min(*until))),
            phase => phase.until(),
        }
    }
}
