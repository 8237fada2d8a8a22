//! The claim of an instance in the local queue, and its lock in the store.
//!
//! Two dispatchers of a process attempt an instance whose load takes longer than a lock lasts. The
//! answer to a lock may be slow, the process may crash, and another runtime may hold the lock. Time passes when no dispatcher can act.

use super::explore::{Explored, explore};
use super::fairness::{Action, CHANCE, action, assert_contains, trace};
use super::rules::Rules;

/// The rules. Both are necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A claim ends with its attempt, however long that takes (`local_queue/slot.rs`). Otherwise it
    /// ends after the time of a lock.
    ClaimLastsAsLongAsItsAttempt,
    /// A turn without a claim or with an expired lock is released, so that its attempt does not
    /// count (`turn/hand_out.rs`). Otherwise the runtime gets a turn that the queue does not know.
    VoidHandOutIsReleased,
}

const LOCK: u8 = 2;
const LOAD: u8 = 3;
const TURN: u8 = 1;

/// How long another runtime holds the lock: longer than a load takes.
const OTHER: u8 = LOAD + 1;

/// The attempts after which the runtime fails the instance.
const POISON: u8 = 3;

/// The dispatchers, and another holder of the lock.
const NAMES: [&str; 3] = ["dispatcher 1", "dispatcher 2", "another runtime"];

/// The phase of a dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Waits,
    Loads,
    /// Its lock was granted. The answer is under way.
    Locks,
    Runs,
    /// The runtime processes a turn that the queue does not know.
    RunsUnknown,
}

/// A claim or a lock, with the time until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    by: usize,
    left: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    claim: Option<Held>,
    lock: Option<Held>,
    /// The phase of each dispatcher, and the time until it can act.
    dispatchers: [(Phase, u8); 2],
    /// The locks that were neither released nor followed by a commit.
    attempts: u8,
    is_committed: bool,
    /// The remaining failures.
    slow_answers: u8,
    crashes: u8,
    other_locks: u8,
}

type Steps = Vec<(Action, State)>;

impl State {
    fn start() -> Self {
        Self {
            claim: None,
            lock: None,
            dispatchers: [(Phase::Waits, 0); 2],
            attempts: 0,
            is_committed: false,
            slow_answers: POISON,
            crashes: 1,
            other_locks: 1,
        }
    }

    fn violation(&self) -> Option<String> {
        (self.attempts >= POISON).then(|| "a healthy instance is poisoned".to_owned())
    }

    fn waits(&self) -> bool {
        !self.is_committed
    }

    fn steps(&self, rules: Rules<Rule>) -> Steps {
        let mut steps = Vec::new();
        if self.is_committed {
            return steps;
        }
        self.act(0, rules, &mut steps);
        self.act(1, rules, &mut steps);
        if steps.is_empty() {
            steps.push(self.pass(rules));
        }
        if self.crashes > 0 {
            let mut after = self.clone();
            after.crashes -= 1;
            after.claim = None;
            after.dispatchers = Self::start().dispatchers;
            steps.push((action(CHANCE, "the process crashes"), after));
        }
        if self.other_locks > 0 && self.lock.is_none() {
            let mut after = self.clone();
            after.other_locks -= 1;
            after.lock = Some(Held { by: 2, left: OTHER });
            let what = "another runtime locks the instance";
            steps.push((action(CHANCE, what), after));
        }
        steps
    }

    fn act(&self, by: usize, rules: Rules<Rule>, steps: &mut Steps) {
        let mut after = self.clone();
        let what = match self.dispatchers[by] {
            (Phase::Waits, _) if self.claim.is_none() => {
                after.claim = Some(Held { by, left: LOCK });
                after.dispatchers[by] = (Phase::Loads, LOAD);
                "claims the instance and loads it"
            }
            (Phase::Loads, 0) => after.lock(by),
            (Phase::Locks, 0) => after.hand_out(by, rules),
            (Phase::Runs, 0) => {
                after.is_committed = true;
                "commits"
            }
            (Phase::RunsUnknown, 0) => {
                after.dispatchers[by] = (Phase::Waits, 0);
                "cannot commit a turn that the queue does not know"
            }
            _ => return,
        };
        steps.push((action(NAMES[by], what), after.clone()));
        if after.attempts > self.attempts && self.slow_answers > 0 {
            after.slow_answers -= 1;
            after.dispatchers[by] = (Phase::Locks, LOCK);
            let what = format!("{what}, and the answer is slow");
            steps.push((action(NAMES[by], what), after));
        }
    }

    /// The end of a load: requests the lock.
    fn lock(&mut self, by: usize) -> &'static str {
        if self.lock.is_some() {
            self.claim.take_if(|claim| claim.by == by);
            self.dispatchers[by] = (Phase::Waits, 0);
            return "finds the lock held";
        }
        self.attempts += 1;
        self.lock = Some(Held { by, left: LOCK });
        if self.claim.is_some_and(|claim| claim.by == by) {
            self.claim = self.lock;
        }
        self.dispatchers[by] = (Phase::Locks, 0);
        "locks the instance"
    }

    /// The answer to the request for the lock.
    fn hand_out(&mut self, by: usize, rules: Rules<Rule>) -> &'static str {
        let claim = self.claim.filter(|claim| claim.by == by);
        let lock = self.lock.filter(|lock| lock.by == by);
        if claim.is_some() && lock.is_some() {
            self.dispatchers[by] = (Phase::Runs, TURN);
            return "hands the turn out";
        }
        self.claim = self.claim.filter(|_| claim.is_none());
        if !rules.has(&Rule::VoidHandOutIsReleased) {
            self.dispatchers[by] = (Phase::RunsUnknown, TURN);
            return "hands the turn out, although its claim or lock has ended";
        }
        self.lock = self.lock.filter(|_| lock.is_none());
        self.attempts -= 1;
        self.dispatchers[by] = (Phase::Waits, 0);
        "releases the turn, whose claim or lock has ended"
    }

    /// Time passes.
    fn pass(&self, rules: Rules<Rule>) -> (Action, Self) {
        let mut after = self.clone();
        let mut what = vec!["passes".to_owned()];
        let ends = |held: &mut Held| {
            held.left -= 1;
            held.left == 0
        };
        if !rules.has(&Rule::ClaimLastsAsLongAsItsAttempt)
            && let Some(claim) = after.claim.take_if(ends)
        {
            what.push(format!("the claim of {} ends", NAMES[claim.by]));
        }
        if let Some(lock) = after.lock.take_if(ends) {
            what.push(format!("the lock of {} expires", NAMES[lock.by]));
        }
        for (_, left) in &mut after.dispatchers {
            *left = left.saturating_sub(1);
        }
        (action("time", what.join("; ")), after)
    }
}

fn check(rules: Rules<Rule>) -> Explored<State, Action> {
    explore(State::start(), |state| state.steps(rules), State::violation)
}

fn poisoned(rules: Rules<Rule>) -> String {
    let (_, steps) = check(rules).violation.expect("a rule is missing");
    trace(&steps)
}

#[test]
fn an_instance_whose_load_takes_longer_than_its_lock_is_committed() {
    let explored = check(Rules::ALL);
    println!("{} states", explored.states);
    assert_eq!(explored.violation, None);
    explored.assert_ends(State::waits);
}

#[test]
fn if_a_claim_ends_during_its_load_no_attempt_ever_commits() {
    let rules = Rules::without(&[Rule::ClaimLastsAsLongAsItsAttempt]);
    let explored = explore(State::start(), |state| state.steps(rules), |_| None);
    let found = explored.endless(State::waits);
    let found = found.expect("a rule is missing").to_string();
    let (_, cycle) = found.split_once("then again and again\n").expect("a cycle");
    let steps = [
        "time: passes; the claim of dispatcher 1 ends",
        "dispatcher 2: claims the instance and loads it",
        "time: passes",
        "dispatcher 1: locks the instance",
        "dispatcher 1: releases the turn, whose claim or lock has ended",
        "time: passes; the claim of dispatcher 2 ends",
        "dispatcher 1: claims the instance and loads it",
    ];
    assert_contains(cycle, &steps);
}

#[test]
fn if_a_turn_with_an_expired_lock_is_handed_out_a_slow_answer_counts_as_an_attempt() {
    let found = poisoned(Rules::without(&[Rule::VoidHandOutIsReleased]));
    let steps = [
        "dispatcher 1: locks the instance, and the answer is slow",
        "time: passes",
        "time: passes; the lock of dispatcher 1 expires",
        "dispatcher 1: hands the turn out, although its claim or lock has ended",
    ];
    assert_contains(&found, &steps);
    assert_contains(
        &found,
        &["dispatcher 1: cannot commit a turn that the queue does not know"],
    );
}

#[test]
fn without_both_rules_a_slow_load_poisons_the_instance() {
    let found = poisoned(Rules::without(&[
        Rule::ClaimLastsAsLongAsItsAttempt,
        Rule::VoidHandOutIsReleased,
    ]));
    let steps = [
        "time: passes; the claim of dispatcher 1 ends",
        "dispatcher 2: claims the instance and loads it",
        "time: passes",
        "dispatcher 1: locks the instance",
        "dispatcher 1: hands the turn out, although its claim or lock has ended",
    ];
    assert_contains(&found, &steps);
}
