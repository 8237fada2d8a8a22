//! Where dispatchers wait for candidates: what this process knows to be due, and what a poll has found.
//!
//! A candidate is a hint and nothing more. Whoever takes one must still win its lock in the store, and a candidate
//! that is lost (a dropped future, a crash) is found again by a poll. So nothing here is durable, and nothing outside
//! may depend on a candidate being handed out exactly once.
//!
//! One poll at a time serves all dispatchers. It runs in the background, also while there is enough to do, so that work
//! of other processes does not wait until ours is done.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::future::Future;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Pace;

/// How far ahead hints are kept, so that a million timers of next month do not fill the memory.
const FARTHEST_HINT: Duration = Duration::from_secs(300);

/// A candidate and what identifies it: two candidates with one key are one piece of work.
pub(crate) trait Candidate: Send {
    type Key: Clone + std::fmt::Debug + Eq + Hash + Send;

    fn key(&self) -> Self::Key;

    /// Whether a poll has found it, so that the next poll knows better.
    fn is_polled(&self) -> bool;
}

/// The waiting room of one queue.
#[derive(Debug)]
pub(crate) struct Lobby<C: Candidate> {
    state: Mutex<State<C>>,
    arrived: Notify,
}

#[derive(Debug)]
struct State<C: Candidate> {
    ready: VecDeque<C>,
    queued: HashSet<C::Key>,
    /// Due later, by local time; the number keeps candidates of one instant apart.
    later: BTreeMap<(Instant, u64), C>,
    sequence: u64,
    pace: Pace,
    polling: bool,
    /// How many fetches with patience are here.
    waiting: usize,
}

impl<C: Candidate> Lobby<C> {
    pub(crate) fn new(min_poll: Duration, max_poll: Duration) -> Self {
        Self {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                queued: HashSet::new(),
                later: BTreeMap::new(),
                sequence: 0,
                pace: Pace::new(min_poll, max_poll),
                polling: false,
                waiting: 0,
            }),
            arrived: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<C>> {
        // The state is valid between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This process knows of something to do `after` a delay. What is far away is not kept: a poll will find it.
    pub(crate) fn hint(&self, candidate: C, after: Duration) {
        if !is_near(after) {
            return;
        }
        {
            let mut state = self.state();
            state.pace.busy(Instant::now());
            if after.is_zero() {
                state.push(candidate);
            } else {
                state.sequence += 1;
                let key = (Instant::now() + after, state.sequence);
                state.later.insert(key, candidate);
            }
        }
        self.arrived.notify_one();
    }

    /// Puts a candidate before all others, and in the place of an older one with its key: it was taken for somebody here
    /// and must not lie, nor be lost.
    pub(crate) fn hint_first(&self, candidate: C) {
        {
            let mut state = self.state();
            state.pace.busy(Instant::now());
            let key = candidate.key();
            if !state.queued.insert(key.clone()) {
                state.ready.retain(|older| older.key() != key);
            }
            state.ready.push_front(candidate);
        }
        self.arrived.notify_one();
    }

    /// Something may have come that this process does not know in detail: polls soon.
    pub(crate) fn quicken(&self) {
        self.state().pace.quicken(Instant::now());
        self.arrived.notify_one();
    }

    /// How many candidates are ready, and how many dispatchers wait for one.
    pub(crate) fn ready_and_waiting(&self) -> (usize, usize) {
        let state = self.state();
        (state.ready.len(), state.waiting)
    }

    /// Takes the first candidate that is `wanted`, if there is one.
    pub(crate) fn take(&self, wanted: impl Fn(&C) -> bool) -> Option<C> {
        self.state().take(&wanted)
    }

    /// Starts one fetch that may wait for `patience`; zero means to look once.
    pub(crate) fn wait(&self, patience: Duration) -> Waiter<'_, C> {
        let patient = !patience.is_zero();
        self.state().waiting += usize::from(patient);
        Waiter {
            lobby: self,
            deadline: Instant::now() + patience,
            patient,
            must_poll: !patient,
        }
    }

    /// The right to poll, for whoever was asked to.
    pub(crate) fn polling(&self) -> Polling<'_, C> {
        Polling {
            lobby: self,
            found: false,
        }
    }
}

/// Whether something that is due after this time is kept until then.
pub(crate) fn is_near(after: Duration) -> bool {
    after <= FARTHEST_HINT
}

impl<C: Candidate> State<C> {
    fn push(&mut self, candidate: C) {
        if self.queued.insert(candidate.key()) {
            self.ready.push_back(candidate);
        }
    }

    fn take(&mut self, wanted: &impl Fn(&C) -> bool) -> Option<C> {
        let at = self.ready.iter().position(wanted)?;
        let candidate = self.ready.remove(at)?;
        self.queued.remove(&candidate.key());
        Some(candidate)
    }

    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let candidate = entry.remove();
            self.push(candidate);
        }
    }
}

/// What a waiter does next.
enum Step<C> {
    Take(C),
    Poll,
    Sleep(Instant),
    GiveUp,
}

/// One fetch in the lobby. Dropping it at any point loses nothing but time.
pub(crate) struct Waiter<'a, C: Candidate> {
    lobby: &'a Lobby<C>,
    deadline: Instant,
    patient: bool,
    /// A fetch without patience polls once whatever the pace says: its caller wants to know now.
    must_poll: bool,
}

impl<C: Candidate> Waiter<'_, C> {
    /// The next candidate that is `wanted`, or `None` when patience has ended.
    ///
    /// `poll` asks the store for a fetch without patience. `start_poll` is called when a poll is due for all: it sees to
    /// it that somebody does [`Lobby::polling`] in the background.
    ///
    /// # Errors
    /// Those of `poll`.
    pub(crate) async fn next<E, F: Future<Output = Result<Vec<C>, E>>>(
        &mut self,
        wanted: impl Fn(&C) -> bool,
        mut poll: impl FnMut() -> F,
        start_poll: impl Fn(),
    ) -> Result<Option<C>, E> {
        loop {
            // Registered before looking, so that an arrival in between is not missed.
            let arrival = self.lobby.arrived.notified();
            let (step, poll_is_due) = self.step(&wanted);
            if poll_is_due {
                start_poll();
            }
            match step {
                Step::Take(candidate) => return Ok(Some(candidate)),
                Step::GiveUp => return Ok(None),
                Step::Sleep(until) => {
                    // Either outcome leads back to looking again.
                    let _woken = tokio::time::timeout_at(until, arrival).await;
                }
                Step::Poll => {
                    self.must_poll = false;
                    let found = poll().await?;
                    self.lobby.polling().finish(found);
                }
            }
        }
    }

    /// What to do, and whether to start a poll beside it.
    fn step(&self, wanted: &impl Fn(&C) -> bool) -> (Step<C>, bool) {
        let now = Instant::now();
        let mut state = self.lobby.state();
        state.ripen(now);
        let poll_is_due = self.patient && !state.polling && state.pace.next() <= now;
        state.polling |= poll_is_due;
        (self.step_in(&mut state, now, wanted), poll_is_due)
    }

    fn step_in(&self, state: &mut State<C>, now: Instant, wanted: &impl Fn(&C) -> bool) -> Step<C> {
        if let Some(candidate) = state.take(wanted) {
            if !state.ready.is_empty() {
                self.lobby.arrived.notify_one();
            }
            return Step::Take(candidate);
        }
        if self.must_poll {
            return Step::Poll;
        }
        if now >= self.deadline {
            return Step::GiveUp;
        }
        let mut until = self.deadline;
        if let Some((&(due, _), _)) = state.later.first_key_value() {
            until = until.min(due);
        }
        if !state.polling {
            until = until.min(state.pace.next());
        }
        Step::Sleep(until)
    }
}

impl<C: Candidate> Drop for Waiter<'_, C> {
    fn drop(&mut self) {
        self.lobby.state().waiting -= usize::from(self.patient);
        // A wake-up that came for this waiter belongs to another one now.
        self.lobby.arrived.notify_one();
    }
}

/// The right to poll, given back however the poll ends.
pub(crate) struct Polling<'a, C: Candidate> {
    lobby: &'a Lobby<C>,
    found: bool,
}

impl<C: Candidate> Polling<'_, C> {
    /// The time between this poll and the one before.
    pub(crate) fn interval(&self) -> Duration {
        self.lobby.state().pace.interval()
    }

    pub(crate) fn finish(mut self, candidates: Vec<C>) {
        self.found = !candidates.is_empty();
        let mut state = self.lobby.state();
        let state = &mut *state;
        // What is left of the poll before has waited while others took some of it.
        state.ready.retain(|older| {
            let stays = !older.is_polled();
            if !stays {
                state.queued.remove(&older.key());
            }
            stays
        });
        for candidate in candidates {
            state.push(candidate);
        }
    }
}

impl<C: Candidate> Drop for Polling<'_, C> {
    fn drop(&mut self) {
        {
            let mut state = self.lobby.state();
            state.polling = false;
            state.pace.polled(self.found, Instant::now());
        }
        // The others waited for this poll: some take what it found, one starts the next.
        self.lobby.arrived.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Number(u32);

    impl Candidate for Number {
        type Key = u32;

        fn key(&self) -> u32 {
            self.0
        }

        fn is_polled(&self) -> bool {
            self.0 >= 100
        }
    }

    fn lobby() -> Lobby<Number> {
        Lobby::new(Duration::from_millis(10), Duration::from_millis(80))
    }

    /// Polls find nothing. Returns what the waiter got and how often it polled.
    async fn next(
        waiter: &mut Waiter<'_, Number>,
        wanted: impl Fn(&Number) -> bool,
    ) -> (Option<Number>, u32) {
        let polls = Cell::new(0);
        let count = || polls.set(polls.get() + 1);
        let lobby = waiter.lobby;
        let next = waiter.next(
            wanted,
            || {
                count();
                async { Ok::<_, Infallible>(Vec::new()) }
            },
            || {
                count();
                lobby.polling().finish(Vec::new());
            },
        );
        let Ok(next) = next.await;
        (next, polls.get())
    }

    #[tokio::test(start_paused = true)]
    async fn a_hint_wakes_a_waiter_at_once_and_only_once() {
        let lobby = lobby();
        lobby.hint(Number(1), Duration::ZERO);
        lobby.hint(Number(1), Duration::ZERO);
        let mut waiter = lobby.wait(Duration::from_millis(5));
        assert_eq!(next(&mut waiter, |_| true).await.0, Some(Number(1)));
        assert_eq!(next(&mut waiter, |_| true).await.0, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_hint_comes_when_it_is_due() {
        let lobby = lobby();
        let start = Instant::now();
        lobby.hint(Number(7), Duration::from_millis(500));
        let mut waiter = lobby.wait(Duration::from_secs(2));
        assert_eq!(next(&mut waiter, |_| true).await.0, Some(Number(7)));
        let elapsed = start.elapsed();
        assert!(elapsed >= Duration::from_millis(500) && elapsed < Duration::from_millis(510));
    }

    #[tokio::test(start_paused = true)]
    async fn without_patience_there_is_exactly_one_poll() {
        let lobby = lobby();
        for _ in 0..2 {
            let mut waiter = lobby.wait(Duration::ZERO);
            assert_eq!(next(&mut waiter, |_| true).await, (None, 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_long_for_nothing_polls_seldom() {
        let lobby = lobby();
        let mut waiter = lobby.wait(Duration::from_secs(8));
        let (found, polls) = next(&mut waiter, |_| true).await;
        assert_eq!(found, None);
        // 20, 40, 80, 80, … ms: about one poll per 80 ms.
        assert!((95..=105).contains(&polls), "{polls}");
    }

    #[tokio::test(start_paused = true)]
    async fn polls_go_on_while_there_is_enough_to_do() {
        let lobby = lobby();
        let mut waiter = lobby.wait(Duration::from_secs(8));
        let mut polled = 0;
        for number in 0..90 {
            lobby.hint(Number(number), Duration::ZERO);
            tokio::time::advance(Duration::from_millis(10)).await;
            let (found, polls) = next(&mut waiter, |_| true).await;
            assert_eq!(found, Some(Number(number)));
            polled += polls;
        }
        assert!((10..=20).contains(&polled), "{polled}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_dispatcher_does_not_want_stays_for_the_next() {
        let lobby = lobby();
        lobby.hint(Number(1), Duration::ZERO);
        let mut picky = lobby.wait(Duration::ZERO);
        assert_eq!(next(&mut picky, |n| n.0 > 1).await.0, None);
        let mut other = lobby.wait(Duration::ZERO);
        assert_eq!(next(&mut other, |_| true).await.0, Some(Number(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_replaces_what_the_one_before_has_found() {
        let lobby = lobby();
        lobby.hint(Number(1), Duration::ZERO);
        lobby.polling().finish(vec![Number(100), Number(101)]);
        lobby.polling().finish(vec![Number(102), Number(101)]);
        let mut waiter = lobby.wait(Duration::ZERO);
        for number in [1, 102, 101] {
            assert_eq!(next(&mut waiter, |_| true).await.0, Some(Number(number)));
        }
        assert_eq!(next(&mut waiter, |_| true).await.0, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_takes_the_place_of_an_older_one() {
        let lobby = lobby();
        for number in [1, 2] {
            lobby.hint(Number(number), Duration::ZERO);
        }
        lobby.hint_first(Number(2));
        let mut waiter = lobby.wait(Duration::ZERO);
        assert_eq!(next(&mut waiter, |_| true).await.0, Some(Number(2)));
        assert_eq!(next(&mut waiter, |_| true).await.0, Some(Number(1)));
        assert_eq!(next(&mut waiter, |_| true).await.0, None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_those_who_wait_are_counted() {
        let lobby = lobby();
        let first = lobby.wait(Duration::from_secs(1));
        let _looks_once = lobby.wait(Duration::ZERO);
        let _second = lobby.wait(Duration::from_secs(1));
        assert_eq!(lobby.ready_and_waiting(), (0, 2));
        lobby.hint(Number(1), Duration::ZERO);
        drop(first);
        assert_eq!(lobby.ready_and_waiting(), (1, 1));
    }
}
