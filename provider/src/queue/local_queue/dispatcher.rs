//! The waiting dispatchers and their requests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::claim::{Caller, Claim};
use super::slot::{Behind, PollNumber, Work};

/// The most kinds of dispatchers of a process that are known.
const MAX_KINDS: usize = 16;

/// The request of one fetch.
#[derive(Clone, Debug)]
pub(crate) struct FetchRequest<A> {
    /// The items that the dispatcher can process.
    pub(crate) capability: A,
    /// The lock time.
    pub(crate) lock_timeout: Duration,
    pub(crate) caller: Caller,
}

/// Identifies a waiting fetch.
pub(crate) type WaiterId = u64;

/// A waiting fetch.
#[derive(Debug)]
pub(super) struct Waiter<W: Work> {
    pub(super) request: FetchRequest<W::Capability>,
    pub(super) must_poll: bool,
    /// Whether the waiter was woken and has not looked for an item yet.
    pub(super) woken: bool,
    /// Whether the fetch must end, so that the runtime sends another request.
    pub(super) is_outdated: bool,
    /// Running attempts of other dispatchers for items that this waiter's poll has found.
    pub(super) undecided: Vec<Claim<W::Key>>,
    /// Wakes the fetch.
    pub(super) notify: Arc<Notify>,
}

impl<W: Work> Waiter<W> {
    /// Marks the fetch as woken. Returns its handle.
    pub(super) fn wake(&mut self) -> Arc<Notify> {
        self.woken = true;
        self.notify.clone()
    }
}

/// All dispatchers of a queue.
#[derive(Debug)]
pub(super) struct Dispatchers<W: Work> {
    pub(super) waiting: BTreeMap<WaiterId, Waiter<W>>,
    /// The handles of the waiters to wake once the queue's mutex is released.
    pub(super) to_wake: Vec<Arc<Notify>>,
    /// The number of dispatchers that are processing an item of a long poll.
    pub(super) working: usize,
    /// The items for which dispatchers are at work that were behind others when they were taken.
    pub(super) behind: HashMap<W::Key, Behind>,
    /// The number of items of the first class handed out since the last other item.
    pub(super) first_in_a_row: u32,
    /// The time since when other items are ready.
    pub(super) others_ready_since: Option<Instant>,
    /// The average processing time per item.
    pub(super) average: MovingAverage,
    /// The request of the last long poll. Prelocks are taken for a dispatcher like it.
    pub(super) last_request: Option<FetchRequest<W::Capability>>,
    /// What the dispatchers of this process take, the newest of each kind last.
    pub(super) kinds: Vec<W::Capability>,
    /// Whether one of them is new: items may wait for permits that did not before.
    pub(super) has_new_kind: bool,
    pub(super) closing: bool,
    pub(super) next_id: WaiterId,
}

impl<W: Work> Default for Dispatchers<W> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            to_wake: Vec::new(),
            working: 0,
            behind: HashMap::new(),
            first_in_a_row: 0,
            others_ready_since: None,
            average: MovingAverage::default(),
            last_request: None,
            kinds: Vec::new(),
            has_new_kind: false,
            closing: false,
            next_id: 0,
        }
    }
}

impl<W: Work> Dispatchers<W> {
    /// Notes what a dispatcher takes.
    pub(super) fn note_kind(&mut self, capability: &W::Capability) {
        let known = self.kinds.len();
        self.kinds.retain(|kind| !W::is_alike(kind, capability));
        self.has_new_kind |= self.kinds.len() == known;
        if self.kinds.len() == MAX_KINDS {
            self.kinds.remove(0);
        }
        self.kinds.push(capability.clone());
    }
}

/// The dispatchers for which the caller of an item waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takers {
    /// Those that wait for an item.
    Idle,
    /// Also those that are at work and will end their turns.
    Any,
}

/// The load of this process's dispatchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Items that wait for a dispatcher.
    pub(crate) ready: usize,
    /// Dispatchers that wait for an item.
    pub(crate) waiting: usize,
    /// Dispatchers that are processing an item.
    pub(crate) working: usize,
}

/// The next step of a fetch.
#[derive(Debug)]
pub(crate) enum Next<W: Work> {
    /// Try an item.
    Try(Claim<W::Key>, W::Attempt),
    /// Hand out an item that is prelocked.
    HandOut(Claim<W::Key>, Box<W::Lock>),
    /// Poll, then look for an item again.
    Poll(PollNumber),
    /// Wait until woken, or until this time.
    Wait(Option<Instant>),
    /// Wait until an attempt of another dispatcher ends.
    WaitForAttempt,
    End,
}

/// An exponential moving average; each new time has a weight of one eighth.
#[derive(Debug, Default)]
pub(crate) struct MovingAverage {
    time: Option<Duration>,
}

impl MovingAverage {
    /// Adds a processing time.
    pub(crate) fn add(&mut self, time: Duration) {
        self.time = Some(self.time.map_or(time, |average| average * 7 / 8 + time / 8));
    }

    /// Returns the average; `None` before the first time.
    pub(crate) fn time(&self) -> Option<Duration> {
        self.time
    }

    /// Returns how many items fit into `time` in sequence: at least one, and one while no time is
    /// known.
    pub(crate) fn items_within(&self, time: Duration) -> usize {
        let average = self.time.unwrap_or(time).max(Duration::from_micros(1));
        let count = time.as_micros() / average.as_micros();
        usize::try_from(count).unwrap_or(usize::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_recent_times() {
        let ms = Duration::from_millis;
        let mut average = MovingAverage::default();
        assert_eq!(average.items_within(ms(100)), 1);
        average.add(ms(10));
        assert_eq!(average.items_within(ms(100)), 10);
        for _ in 0..40 {
            average.add(ms(50));
        }
        assert_eq!(average.items_within(ms(100)), 2);
        assert_eq!(average.items_within(ms(1)), 1);
    }
}
