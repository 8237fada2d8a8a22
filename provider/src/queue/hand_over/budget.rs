//! How long a caller waits for a turn, and for which orchestrations it waits at all.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::HandOver as Policy;
use crate::queue::local_queue::MovingAverage;
use crate::stored::documents::WorkerItem;
use crate::timing::{HAND_OVER, HAND_OVER_COMMITS, HAND_OVER_PAUSE, HAND_OVER_SCARCE};

/// The most orchestrations that are remembered. Beyond it all are forgotten.
const MAX_ORCHESTRATIONS: usize = 1_024;

/// What turns and commits of this process have taken, and which messages may wait for them.
#[derive(Debug)]
pub(crate) struct Budget {
    policy: Policy,
    times: Mutex<Times>,
}

#[derive(Debug, Default)]
struct Times {
    commits: MovingAverage,
    turns: HashMap<String, Turns>,
}

/// The turns of an orchestration.
#[derive(Debug, Default)]
struct Turns {
    /// From the fetch to the commit: the replay and the code.
    average: MovingAverage,
    /// The end of the pause after a turn that came late.
    not_before: Option<Instant>,
}

impl Budget {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            times: Mutex::default(),
        }
    }

    /// Returns whether no message is handed over.
    pub(crate) fn is_off(&self) -> bool {
        self.policy == Policy::Never
    }

    /// Returns whether the result of an activity may be handed over.
    pub(crate) fn admits(&self, activity: &WorkerItem) -> bool {
        match &self.policy {
            Policy::Never => false,
            Policy::Except(names) => activity.name().is_none_or(|name| !names.contains(&name)),
            Policy::WithSpareDispatchers | Policy::Always => true,
        }
    }

    /// Returns whether dispatchers count as free, for tests.
    pub(crate) fn is_always(&self) -> bool {
        self.policy == Policy::Always
    }

    /// Returns whether requests are fast enough to send one more for a hand-over.
    pub(crate) fn is_near(&self) -> bool {
        let commit = self.times.lock().commits.time();
        commit.is_none_or(|commit| commit <= HAND_OVER)
    }

    /// Returns whether a message of this orchestration holds its worker for no longer than storing it would: the code
    /// of a turn takes next to nothing.
    pub(crate) fn is_instant(&self, orchestration: &str) -> bool {
        let times = self.times.lock();
        let turns = times.turns.get(orchestration);
        let turn = turns.and_then(|turns| turns.average.time());
        turn.zip(times.commits.time())
            .is_some_and(|(turn, commit)| turn * HAND_OVER_SCARCE <= commit)
    }

    /// Returns how long a message waits for a turn of this orchestration; `None` if it must not, because
    /// the turns take too long.
    pub(crate) fn of(&self, orchestration: &str, now: Instant) -> Option<Duration> {
        match self.policy {
            Policy::Never => return None,
            Policy::Always => return Some(HAND_OVER),
            Policy::WithSpareDispatchers | Policy::Except(_) => {}
        }
        let times = self.times.lock();
        let commit = times.commits.time().unwrap_or(HAND_OVER);
        let longest = (commit * HAND_OVER_COMMITS).min(HAND_OVER);
        let Some(turns) = times.turns.get(orchestration) else {
            return Some(longest);
        };
        let is_paused = turns.not_before.is_some_and(|end| now < end);
        let is_slow = turns.average.time().is_some_and(|turn| turn > longest);
        (!is_paused && !is_slow).then_some(longest)
    }

    /// Notes the time of a turn from its fetch to its commit.
    pub(crate) fn turn_took(&self, orchestration: &str, time: Duration) {
        self.times.lock().of(orchestration).average.add(time);
    }

    pub(crate) fn commit_took(&self, time: Duration) {
        self.times.lock().commits.add(time);
    }

    /// Notes that a turn has not taken a message in time.
    pub(crate) fn was_late(&self, orchestration: &str, now: Instant) {
        self.times.lock().of(orchestration).not_before = Some(now + HAND_OVER_PAUSE);
    }
}

impl Times {
    fn of(&mut self, orchestration: &str) -> &mut Turns {
        if self.turns.len() >= MAX_ORCHESTRATIONS && !self.turns.contains_key(orchestration) {
            self.turns.clear();
        }
        self.turns.entry(orchestration.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget::new(Policy::WithSpareDispatchers)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_message_waits_for_a_few_commits_at_most() {
        let (budget, now) = (budget(), Instant::now());
        assert_eq!(budget.of("a", now), Some(HAND_OVER));
        budget.commit_took(ms(2));
        assert_eq!(budget.of("a", now), Some(ms(2) * HAND_OVER_COMMITS));
        for _ in 0..40 {
            budget.commit_took(ms(500));
        }
        assert_eq!(budget.of("a", now), Some(HAND_OVER));
    }

    #[test]
    fn it_does_not_wait_for_slow_turns_or_after_a_late_one() {
        let (budget, now) = (budget(), Instant::now());
        budget.commit_took(ms(2));
        budget.turn_took("slow", ms(50));
        budget.turn_took("fast", ms(1));
        assert_eq!(budget.of("slow", now), None);
        assert!(budget.of("fast", now).is_some());
        budget.was_late("fast", now);
        assert_eq!(budget.of("fast", now), None);
        assert!(budget.of("fast", now + HAND_OVER_PAUSE).is_some());
        // A slow orchestration becomes fast again.
        for _ in 0..40 {
            budget.turn_took("slow", ms(1));
        }
        assert!(budget.of("slow", now).is_some());
    }

    #[test]
    fn not_more_than_so_many_orchestrations_are_remembered() {
        let budget = budget();
        for number in 0..5 * MAX_ORCHESTRATIONS {
            budget.turn_took(&number.to_string(), ms(1));
        }
        assert!(budget.times.lock().turns.len() <= MAX_ORCHESTRATIONS);
    }
}
