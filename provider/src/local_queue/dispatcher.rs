//! The dispatchers that wait for an item, and what they ask for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::claim::Claim;
use super::moving_average::MovingAverage;
use super::slot::{PollNumber, Work};

/// What one fetch asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask<A> {
    /// What the dispatcher can work on.
    pub(crate) who: A,
    /// How long it locks an item.
    pub(crate) lock_timeout: Duration,
    /// Whether it waits for work. Otherwise it polls once and takes what it finds.
    pub(crate) long_poll: bool,
}

/// Names a waiting fetch.
pub(super) type WaiterId = u64;

#[derive(Debug)]
pub(super) struct Waiter<W: Work> {
    pub(super) ask: Ask<W::Ask>,
    pub(super) must_poll: bool,
    /// It was told to look and has not looked yet.
    pub(super) woken: bool,
    /// It is to ask for something else.
    pub(super) is_outdated: bool,
    /// Attempts that were under way for items that its poll has found.
    pub(super) undecided: Vec<Claim<W::Key>>,
}

/// All dispatchers of a queue.
#[derive(Debug)]
pub(super) struct Dispatchers<W: Work> {
    pub(super) waiting: BTreeMap<WaiterId, Waiter<W>>,
    /// Those to be woken once the queue's mutex is released.
    pub(super) to_wake: Vec<WaiterId>,
    /// How many work on an item and will come back for the next.
    pub(super) working: usize,
    /// How long they take for an item.
    pub(super) average: MovingAverage,
    /// What the last one that waits asked for: locks are taken ahead for such a one.
    pub(super) last_ask: Option<Ask<W::Ask>>,
    pub(super) closing: bool,
    pub(super) next_id: WaiterId,
}

impl<W: Work> Default for Dispatchers<W> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            to_wake: Vec::new(),
            working: 0,
            average: MovingAverage::default(),
            last_ask: None,
            closing: false,
            next_id: 0,
        }
    }
}

/// How much the dispatchers of this process have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Items that wait for a dispatcher.
    pub(crate) ready: usize,
    /// Dispatchers that wait for an item.
    pub(crate) waiting: usize,
    /// Dispatchers that work on one.
    pub(crate) working: usize,
}

/// What a fetch does next.
#[derive(Debug)]
pub(super) enum Next<W: Work> {
    /// Try an item.
    Try(Claim<W::Key>, W::Attempt),
    /// Begin an item that is locked already, under this token until this time.
    Begin(Claim<W::Key>, Box<W::Lock>),
    /// Poll, and look again.
    Poll(PollNumber),
    /// Look again when woken, or at this time.
    Wait(Option<Instant>),
    /// Look again when an attempt of another dispatcher is decided.
    WaitForAttempt,
    GiveUp,
}
