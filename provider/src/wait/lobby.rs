//! Where dispatchers wait for candidates: what this process knows to be due, and what a poll has found.
//!
//! A candidate is a hint and nothing more. Whoever takes one must still win its lock in the store, and a candidate
//! that is lost (a dropped future, a crash) is found again by a poll. So nothing here is durable, and nothing outside
//! may depend on a candidate being handed out exactly once.

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
        if after > FARTHEST_HINT {
            return;
        }
        {
            let mut state = self.state();
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

    /// Something may have come that this process does not know in detail: polls soon.
    pub(crate) fn quicken(&self) {
        self.state().pace.quicken(Instant::now());
        self.arrived.notify_one();
    }

    /// Starts one fetch that may wait for `patience`; zero means to look once.
    pub(crate) fn wait(&self, patience: Duration) -> Waiter<'_, C> {
        Waiter {
            lobby: self,
            deadline: Instant::now() + patience,
            must_poll: patience.is_zero(),
        }
    }
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
    /// A fetch without patience polls once whatever the pace says: its caller wants to know now.
    must_poll: bool,
}

impl<C: Candidate> Waiter<'_, C> {
    /// The next candidate that is `wanted`, or `None` when patience has ended.
    ///
    /// `poll` asks the store; of all waiters, one polls at a time and all share what it finds.
    ///
    /// # Errors
    /// Those of `poll`.
    pub(crate) async fn next<E, F: Future<Output = Result<Vec<C>, E>>>(
        &mut self,
        wanted: impl Fn(&C) -> bool,
        mut poll: impl FnMut() -> F,
    ) -> Result<Option<C>, E> {
        loop {
            // Registered before looking, so that an arrival in between is not missed.
            let arrival = self.lobby.arrived.notified();
            match self.step(&wanted) {
                Step::Take(candidate) => return Ok(Some(candidate)),
                Step::GiveUp => return Ok(None),
                Step::Sleep(until) => {
                    // Either outcome leads back to looking again.
                    let _woken = tokio::time::timeout_at(until, arrival).await;
                }
                Step::Poll => {
                    self.must_poll = false;
                    let mut turn = PollTurn::of(self.lobby);
                    turn.finish(poll().await?);
                }
            }
        }
    }

    fn step(&self, wanted: &impl Fn(&C) -> bool) -> Step<C> {
        let now = Instant::now();
        let mut state = self.lobby.state();
        state.ripen(now);
        if let Some(candidate) = state.take(wanted) {
            if !state.ready.is_empty() {
                self.lobby.arrived.notify_one();
            }
            return Step::Take(candidate);
        }
        let poll_due = !state.polling && state.pace.next() <= now && now < self.deadline;
        if self.must_poll || poll_due {
            state.polling = true;
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

/// The right to poll, given back however the poll ends.
struct PollTurn<'a, C: Candidate> {
    lobby: &'a Lobby<C>,
    found: bool,
}

impl<'a, C: Candidate> PollTurn<'a, C> {
    fn of(lobby: &'a Lobby<C>) -> Self {
        Self {
            lobby,
            found: false,
        }
    }

    fn finish(&mut self, candidates: Vec<C>) {
        self.found = !candidates.is_empty();
        let mut state = self.lobby.state();
        for candidate in candidates {
            state.push(candidate);
        }
    }
}

impl<C: Candidate> Drop for PollTurn<'_, C> {
    fn drop(&mut self) {
        {
            let mut state = self.lobby.state();
            state.polling = false;
            state.pace.polled(self.found, Instant::now());
        }
        // The others waited for this poll: some take what it found, one polls next.
        self.lobby.arrived.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Number(u32);

    impl Candidate for Number {
        type Key = u32;

        fn key(&self) -> u32 {
            self.0
        }
    }

    fn lobby() -> Lobby<Number> {
        Lobby::new(Duration::from_millis(10), Duration::from_millis(80))
    }

    async fn nothing() -> Result<Vec<Number>, Infallible> {
        Ok(Vec::new())
    }

    #[tokio::test(start_paused = true)]
    async fn a_hint_wakes_a_waiter_at_once_and_only_once() {
        let lobby = lobby();
        lobby.hint(Number(1), Duration::ZERO);
        lobby.hint(Number(1), Duration::ZERO);
        let mut waiter = lobby.wait(Duration::from_millis(5));
        assert_eq!(waiter.next(|_| true, nothing).await, Ok(Some(Number(1))));
        assert_eq!(waiter.next(|_| true, nothing).await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_hint_comes_when_it_is_due() {
        let lobby = lobby();
        let start = Instant::now();
        lobby.hint(Number(7), Duration::from_millis(500));
        let mut waiter = lobby.wait(Duration::from_secs(2));
        assert_eq!(waiter.next(|_| true, nothing).await, Ok(Some(Number(7))));
        let elapsed = start.elapsed();
        assert!(elapsed >= Duration::from_millis(500) && elapsed < Duration::from_millis(510));
    }

    #[tokio::test(start_paused = true)]
    async fn without_patience_there_is_exactly_one_poll() {
        let lobby = lobby();
        let count = AtomicUsize::new(0);
        for _ in 0..2 {
            let mut waiter = lobby.wait(Duration::ZERO);
            let found = waiter
                .next(
                    |_| true,
                    || {
                        count.fetch_add(1, Ordering::Relaxed);
                        nothing()
                    },
                )
                .await;
            assert_eq!(found, Ok(None));
        }
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_long_for_nothing_polls_seldom() {
        let lobby = lobby();
        let count = AtomicUsize::new(0);
        let mut waiter = lobby.wait(Duration::from_secs(8));
        let found = waiter
            .next(
                |_| true,
                || {
                    count.fetch_add(1, Ordering::Relaxed);
                    nothing()
                },
            )
            .await;
        assert_eq!(found, Ok(None));
        // 20, 40, 80, 80, … ms: about one poll per 80 ms.
        assert!(
            (95..=105).contains(&count.load(Ordering::Relaxed)),
            "{count:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_dispatcher_does_not_want_stays_for_the_next() {
        let lobby = lobby();
        lobby.hint(Number(1), Duration::ZERO);
        let mut picky = lobby.wait(Duration::ZERO);
        assert_eq!(picky.next(|n| n.0 > 1, nothing).await, Ok(None));
        let mut other = lobby.wait(Duration::ZERO);
        assert_eq!(other.next(|_| true, nothing).await, Ok(Some(Number(1))));
    }
}
