//! The claim of a message by one of two processes, and its handler.
//!
//! The process that delivers the message to its own container reserves it for itself, for a short
//! time. A handler takes longer than a claim. A process may crash.

use super::explore::{Explored, explore};
use super::fairness::{Action, CHANCE, action, assert_contains, trace};
use super::rules::Rules;

/// The rule, which is necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The claim is renewed while the handler runs (`inbox/claim.rs`). Otherwise it ends while the
    /// handler runs.
    ClaimLastsAsLongAsItsHandler,
}

const RESERVED: u8 = 1;
const CLAIM: u8 = 2;
const HANDLER: u8 = 4;

const PROCESSES: [&str; 2] = ["process 1", "process 2"];

/// A claim, with the time until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Claim {
    by: usize,
    left: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    claim: Option<Claim>,
    /// The rest of the handler of each process.
    handlers: [Option<u8>; 2],
    is_dead: [bool; 2],
    is_received: bool,
    crashes: u8,
}

impl State {
    /// The first process has delivered the message.
    fn start() -> Self {
        Self {
            claim: Some(Claim {
                by: 0,
                left: RESERVED,
            }),
            handlers: [None; 2],
            is_dead: [false; 2],
            is_received: false,
            crashes: 1,
        }
    }

    fn violation(&self) -> Option<String> {
        let running = self.handlers.iter().flatten().count();
        (running > 1).then(|| "two handlers of one message run".to_owned())
    }

    fn waits(&self) -> bool {
        !self.is_received
    }

    fn steps(&self, rules: Rules<Rule>) -> Vec<(Action, State)> {
        let mut steps = Vec::new();
        if self.is_received {
            return steps;
        }
        let living = (0..PROCESSES.len()).filter(|by| !self.is_dead[*by]);
        for by in living.clone() {
            let mut after = self.clone();
            let what = match (self.handlers[by], self.claim) {
                (Some(0), _) => {
                    after.is_received = true;
                    "receives the message"
                }
                (None, None) => {
                    after.claim = Some(Claim { by, left: CLAIM });
                    after.handlers[by] = Some(HANDLER);
                    "claims the message and starts its handler"
                }
                (None, Some(claim)) if claim.by == by => {
                    after.handlers[by] = Some(HANDLER);
                    "starts the handler of the message that it has delivered"
                }
                _ => continue,
            };
            steps.push((action(PROCESSES[by], what), after));
        }
        if steps.is_empty() {
            steps.push(self.pass(rules));
        }
        for by in living.filter(|_| self.crashes > 0) {
            let mut after = self.clone();
            after.crashes -= 1;
            after.is_dead[by] = true;
            after.handlers[by] = None;
            steps.push((action(CHANCE, format!("{} crashes", PROCESSES[by])), after));
        }
        steps
    }

    /// Time passes. A running handler has its claim renewed.
    fn pass(&self, rules: Rules<Rule>) -> (Action, Self) {
        let mut after = self.clone();
        after.handlers = self.handlers.map(|handler| handler.map(|left| left - 1));
        let is_renewed = |claim: &Claim| {
            self.handlers[claim.by].is_some() && rules.has(&Rule::ClaimLastsAsLongAsItsHandler)
        };
        let ended = after.claim.take_if(|claim| {
            claim.left = if is_renewed(claim) {
                CLAIM
            } else {
                claim.left - 1
            };
            claim.left == 0
        });
        let what = ended.map_or_else(
            || "passes".to_owned(),
            |claim| format!("passes; the claim of {} ends", PROCESSES[claim.by]),
        );
        (action("time", what), after)
    }
}

fn check(rules: Rules<Rule>) -> Explored<State, Action> {
    explore(State::start(), |state| state.steps(rules), State::violation)
}

#[test]
fn a_message_is_received_by_one_handler_at_a_time() {
    let explored = check(Rules::ALL);
    println!("{} states", explored.states);
    assert_eq!(explored.violation, None);
    explored.assert_ends(State::waits);
}

#[test]
fn if_a_claim_ends_during_its_handler_a_second_handler_starts() {
    let explored = check(Rules::without(&[Rule::ClaimLastsAsLongAsItsHandler]));
    let (_, steps) = explored.violation.expect("a rule is missing");
    let expected = [
        "process 1: starts the handler of the message that it has delivered",
        "time: passes; the claim of process 1 ends",
        "process 2: claims the message and starts its handler",
    ];
    assert_contains(&trace(&steps), &expected);
}
