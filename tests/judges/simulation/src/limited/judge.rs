//! The judge of one limit: never more than it permits, and its use while anything waits.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::excuses::{Excuses, Scope};

/// The time of a fault that explains a run of too many, and a slower use: the lease of a runtime, and the time to
/// start a node.
const EXPLAINED: Duration = Duration::from_secs(60);

/// The time from the start of an instance until all runtimes may know its activity.
const SETTLED: Duration = Duration::from_secs(10);

/// A reserved start lapses after a second, and each runtime may use those of the second before.
const LATE: f64 = 2.0;

/// Shorter waits say nothing about the use.
const JUDGED: Duration = Duration::from_secs(120);

/// A limit of an activity.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    Running(u32),
    PerSecond(f64),
}

/// The runs of an activity and the starts of its instances.
#[derive(Debug, Default)]
pub(super) struct Judge {
    limit: Option<Limit>,
    runs: BTreeMap<u64, Run>,
    /// The times from which activities wait.
    waiting: Vec<Duration>,
    /// When the starts so far are used up, had each taken its time; seconds.
    used_up_at: f64,
    used: Used,
    problems: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    node: u32,
    began: Duration,
    ended: Option<Duration>,
}

/// What could have run while something waited, and what ran: seconds of runs, or starts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    waited: Duration,
    permitted: f64,
    taken: f64,
}

impl Judge {
    /// Begins to judge, once all nodes know the limit.
    pub(super) fn judge(&mut self, limit: Limit) {
        self.limit = Some(limit);
    }

    /// Notes the start of an instance.
    pub(super) fn start(&mut self, now: Duration) {
        self.waiting.push(now + SETTLED);
    }

    /// Notes that a node runs the activity. Returns the number of the run.
    pub(super) fn begin(&mut self, node: u32, now: Duration, excuses: &Excuses) -> u64 {
        let number = self.runs.last_key_value().map_or(0, |(last, _)| last + 1);
        let run = Run {
            node,
            began: now,
            ended: None,
        };
        self.runs.insert(number, run);
        let excess = match self.limit {
            Some(Limit::Running(most)) => self.beyond_cap(most, now, excuses),
            Some(Limit::PerSecond(rate)) => self.beyond_rate(rate, run, excuses),
            None => None,
        };
        let problem = excess.map(|excess| format!("{excess} at {} s", now.as_secs()));
        self.problems.extend(problem);
        number
    }

    /// Returns what is wrong if more run than may, of those that no fault explains.
    fn beyond_cap(&self, most: u32, now: Duration, excuses: &Excuses) -> Option<String> {
        let running = self.runs.values().filter(|run| run.ended.is_none());
        let counted = running.filter(|run| !is_explained(run, now, excuses));
        let counted: Vec<_> = counted.map(|run| (run.node, run.began)).collect();
        let is_beyond = counted.len() > most as usize;
        is_beyond.then(|| format!("{} run, {most} may: {counted:?}", counted.len()))
    }

    /// Returns what is wrong if a start comes too early after those before.
    fn beyond_rate(&mut self, rate: f64, run: Run, excuses: &Excuses) -> Option<String> {
        if is_explained(&run, run.began, excuses) {
            return None;
        }
        let now = run.began.as_secs_f64();
        self.used_up_at = self.used_up_at.max(now) + 1.0 / rate;
        let ahead = self.used_up_at - now;
        let is_beyond = ahead > LATE + 1.0 / rate + 1e-6;
        is_beyond.then(|| format!("starts are {ahead:.2} s ahead of {rate} a second"))
    }

    pub(super) fn end(&mut self, number: u64, now: Duration) {
        if let Some(run) = self.runs.get_mut(&number) {
            run.ended.get_or_insert(now);
        }
    }

    /// Ends the runs of a killed node.
    pub(super) fn forget(&mut self, node: u32, now: Duration) {
        let of_node = self.runs.values_mut().filter(|run| run.node == node);
        for run in of_node {
            run.ended.get_or_insert(now);
        }
    }

    /// Counts what was used since the last call. To be called when nothing waits or runs.
    pub(super) fn count(&mut self, excuses: &Excuses) {
        let runs = std::mem::take(&mut self.runs);
        let waiting = std::mem::take(&mut self.waiting);
        if let Some(limit) = self.limit {
            self.used.add(limit, &waiting, runs.values(), excuses);
        }
    }

    /// Returns what is wrong, with the use if it is less than this share.
    pub(super) fn problems(&mut self, least: f64) -> Vec<String> {
        let mut problems = std::mem::take(&mut self.problems);
        let Used {
            waited,
            permitted,
            taken,
        } = self.used;
        if waited >= JUDGED && taken < least * permitted {
            problems.push(format!(
                "{:?}: {:.2} of it is used while something waits, in {} s",
                self.limit,
                taken / permitted,
                waited.as_secs()
            ));
        }
        problems
    }

    /// Returns the share that was used, and the time that something waited.
    pub(super) fn share(&self) -> (f64, Duration) {
        (self.used.taken / self.used.permitted, self.used.waited)
    }
}

impl Used {
    fn add<'a>(
        &mut self,
        limit: Limit,
        waiting: &[Duration],
        runs: impl Iterator<Item = &'a Run>,
        excuses: &Excuses,
    ) {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        enum Change {
            Waits,
            Begins,
            Ends,
        }
        let mut changes: Vec<_> = waiting.iter().map(|at| (*at, Change::Waits)).collect();
        for run in runs {
            changes.push((run.began, Change::Begins));
            changes.extend(run.ended.map(|at| (at, Change::Ends)));
        }
        changes.sort_unstable();
        let (mut waits, mut running, mut before) = (0_i64, 0_i64, Duration::ZERO);
        for (at, change) in changes {
            let span = before.saturating_sub(EXPLAINED)..at;
            if waits > 0 && excuses.time(&span, |_| true).is_zero() {
                let time = at.saturating_sub(before);
                self.waited += time;
                let seconds = time.as_secs_f64();
                let (permitted, taken) = match limit {
                    Limit::Running(most) => (f64::from(most), count(running) * seconds),
                    Limit::PerSecond(rate) => (rate, count(i64::from(change == Change::Begins))),
                };
                self.permitted += permitted * seconds;
                self.taken += taken;
            }
            match change {
                Change::Waits => waits += 1,
                // One that begins before its time has settled does not wait later.
                Change::Begins => (waits, running) = (waits - 1, running + 1),
                Change::Ends => running -= 1,
            }
            before = at;
        }
    }
}

fn count(number: i64) -> f64 {
    f64::from(i32::try_from(number).unwrap_or(i32::MAX))
}

/// Returns whether a fault explains a run: a node that it has cut off may go on with what it had started.
fn is_explained(run: &Run, now: Duration, excuses: &Excuses) -> bool {
    let span = run.began.saturating_sub(EXPLAINED)..now;
    let concerns = |scope: &Scope| match scope {
        Scope::Node(impaired) => *impaired == run.node,
        Scope::Loads => false,
        Scope::Everything | Scope::Partition(..) => true,
    };
    !excuses.time(&span, concerns).is_zero()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Runs activities of four seconds with these starts. All wait from the beginning.
    fn judged(limit: Limit, starts: impl Iterator<Item = u64>) -> Judge {
        let (mut judge, none) = (Judge::default(), Excuses::default());
        judge.judge(limit);
        let starts: Vec<u64> = starts.collect();
        for _ in &starts {
            judge.start(seconds(0));
        }
        let mut running = Vec::new();
        for start in starts {
            let now = seconds(10 + start);
            running.retain(|(end, number)| {
                let is_over = *end <= now;
                if is_over {
                    judge.end(*number, *end);
                }
                !is_over
            });
            running.push((now + seconds(4), judge.begin(0, now, &none)));
        }
        for (end, number) in running {
            judge.end(number, end);
        }
        judge.count(&none);
        judge
    }

    #[test]
    fn a_cap_that_is_used_up_is_no_problem() {
        let mut judge = judged(Limit::Running(2), (0..200).map(|it| it / 2 * 4));
        assert_eq!(judge.problems(0.95), Vec::<String>::new());
    }

    #[test]
    fn a_third_run_is_a_problem() {
        let mut judge = judged(Limit::Running(2), (0..9).map(|it| it / 3 * 4));
        assert_eq!(judge.problems(0.0).len(), 3);
    }

    #[test]
    fn an_unused_permit_is_a_problem() {
        let mut judge = judged(Limit::Running(2), (0..100).map(|it| it * 4));
        let problems = judge.problems(0.85);
        assert!(problems[0].contains("0.50 of it"), "{problems:?}");
    }

    #[test]
    fn starts_of_a_rate_are_judged_on_both_sides() {
        let mut exact = judged(Limit::PerSecond(1.0), 0..200);
        assert_eq!(exact.problems(0.95), Vec::<String>::new());
        let mut fast = judged(Limit::PerSecond(1.0), (0..20).map(|it| it / 2));
        assert!(!fast.problems(0.0).is_empty());
        let mut slow = judged(Limit::PerSecond(1.0), (0..100).map(|it| it * 2));
        assert!(slow.problems(0.85)[0].contains("0.51 of it"));
    }

    #[test]
    fn faults_explain_both_sides() {
        let (mut judge, excuses) = (Judge::default(), Excuses::default());
        excuses.note(Scope::Node(0), seconds(1_000), "cut off");
        judge.judge(Limit::Running(1));
        for _ in 0..2 {
            judge.start(seconds(0));
        }
        let first = judge.begin(0, seconds(10), &excuses);
        judge.begin(1, seconds(400), &excuses);
        judge.end(first, seconds(401));
        judge.forget(1, seconds(402));
        judge.count(&excuses);
        assert_eq!(judge.problems(1.0), Vec::<String>::new());
    }
}
