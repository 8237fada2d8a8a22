//! The completion of an activity that is handed over to a turn of its process before it is stored.
//!
//! Another runtime may steal the activity, commit another turn first, or take the stored completion. Answers are
//! lost, the turn is given up and the process dies, at every point.

use super::explore::{Explored, explore};
use super::rules::Rules;

/// The rules, which are necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The batch of the turn deletes the activity only at the version that its lock left (`turn/commit/plan.rs`).
    CommitDeletesAtVersion,
    /// The acknowledgement is answered after the commit (`activity/hand_over.rs`).
    AnswerAfterCommit,
    /// A commit holds the gate, so that the completion is not stored meanwhile (`queue/hand_over/gate.rs`).
    CommitHoldsGate,
    /// A committed turn notes that it has consumed the completion.
    ConsumptionIsNoted,
    /// The acknowledgement notes that it has stored the completion.
    StorageIsNoted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Ok,
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Waiting,
    Stored,
    Consumed,
    Failed,
}

/// The acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ack {
    Waits,
    /// Has the gate.
    Stores,
    /// Has the gate; the answer was lost.
    FindsOut,
    Ended(Answer),
}

/// What the batch of the turn deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Deletes {
    Activity,
    Message,
}

/// The turn that has the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Turn {
    Runs,
    /// Has the gate.
    Commits(Deletes),
    /// Has the gate; the answer was lost.
    FindsOut(Deletes),
    /// Has the gate.
    Committed,
    Ended,
}

/// Another turn, which reads the instance and commits if it is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Other {
    Waits,
    Read(u8),
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// The version of the activity: 1 as the process has locked it, 2 as its thief has; `None` after its end.
    activity: Option<u8>,
    is_stored: bool,
    /// The version of the instance.
    instance: u8,
    consumed: u8,
    fate: Fate,
    /// Acknowledgement and turn, until the process dies.
    process: Option<(Ack, Turn)>,
    /// Whether the instance has the commit token of the turn.
    has_token: bool,
    unrelated: Other,
    later: Other,
    losses: u8,
    broken: Option<&'static str>,
}

type Step = (&'static str, State);

impl State {
    fn start() -> Self {
        Self {
            activity: Some(1),
            is_stored: false,
            instance: 0,
            consumed: 0,
            fate: Fate::Waiting,
            process: Some((Ack::Waits, Turn::Runs)),
            has_token: false,
            unrelated: Other::Waits,
            later: Other::Waits,
            losses: 2,
            broken: None,
        }
    }

    fn violation(&self) -> Option<String> {
        let is_gone = self.activity.is_none() && !self.is_durable();
        let gone = is_gone.then_some("the activity is gone without a result");
        let twice = (self.consumed > 1).then_some("the completion is consumed twice");
        self.broken.or(twice).or(gone).map(str::to_owned)
    }

    fn is_done(&self) -> bool {
        self.consumed == 1
    }

    fn is_durable(&self) -> bool {
        self.is_stored || self.consumed > 0
    }

    fn is_stolen(&self) -> bool {
        self.activity == Some(2)
    }

    /// Applies the batch that ends the activity at a version and stores the completion.
    fn store(&mut self, version: u8) -> Answer {
        if self.activity != Some(version) {
            return Answer::Refused;
        }
        self.activity = None;
        self.is_stored = true;
        Answer::Ok
    }

    /// Applies the batch of the turn.
    fn commit(&mut self, deletes: Deletes, rules: Rules<Rule>) -> Answer {
        let is_there = match deletes {
            Deletes::Message => self.is_stored,
            Deletes::Activity => {
                self.activity == Some(1) || !rules.has(&Rule::CommitDeletesAtVersion)
            }
        };
        if self.instance > 0 || !is_there {
            return Answer::Refused;
        }
        match deletes {
            Deletes::Message => self.is_stored = false,
            Deletes::Activity => self.activity = None,
        }
        self.instance += 1;
        self.consumed += 1;
        self.has_token = true;
        Answer::Ok
    }

    fn after(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut after = self.clone();
        change(&mut after);
        after
    }

    fn steps(&self, rules: Rules<Rule>) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some((ack, turn)) = self.process {
            steps.extend(self.ack_steps(ack, turn, rules));
            steps.extend(self.turn_steps(ack, turn, rules));
            steps.push(("the process dies", self.after(|it| it.process = None)));
        }
        match self.activity {
            Some(1) => steps.push((
                "another runtime steals the activity",
                self.after(|it| it.activity = Some(2)),
            )),
            Some(_) => steps.push((
                "another runtime stores its completion",
                self.after(|it| {
                    let _stored = it.store(2);
                }),
            )),
            None => {}
        }
        let seen = self.instance;
        match self.unrelated {
            Other::Waits => steps.push((
                "another turn is read",
                self.after(|it| it.unrelated = Other::Read(seen)),
            )),
            Other::Read(read) => steps.push((
                "another turn commits",
                self.after(|it| {
                    it.unrelated = Other::Ended;
                    it.instance += u8::from(read == seen);
                }),
            )),
            Other::Ended => {}
        }
        match self.later {
            Other::Waits if self.is_stored => steps.push((
                "a turn reads the stored completion",
                self.after(|it| it.later = Other::Read(seen)),
            )),
            Other::Read(read) => steps.push((
                "that turn commits",
                self.after(|it| {
                    let is_current = read == seen && it.is_stored;
                    it.later = if is_current {
                        Other::Ended
                    } else {
                        Other::Waits
                    };
                    it.is_stored &= !is_current;
                    it.instance += u8::from(is_current);
                    it.consumed += u8::from(is_current);
                }),
            )),
            Other::Waits | Other::Ended => {}
        }
        steps
    }

    fn ack_steps(&self, ack: Ack, turn: Turn, rules: Rules<Rule>) -> Vec<Step> {
        let to = |ack| Some((ack, turn));
        let is_taken = matches!(turn, Turn::Commits(_) | Turn::FindsOut(_) | Turn::Committed);
        match ack {
            Ack::Waits if is_taken && !rules.has(&Rule::AnswerAfterCommit) => {
                vec![("the ack is answered early", self.acked(Answer::Ok, turn))]
            }
            Ack::Waits if is_taken && rules.has(&Rule::CommitHoldsGate) => Vec::new(),
            Ack::Waits if self.fate == Fate::Consumed => {
                vec![("the ack is answered", self.acked(Answer::Ok, turn))]
            }
            Ack::Waits => vec![(
                "the ack waits no longer",
                self.after(|it| it.process = to(Ack::Stores)),
            )],
            Ack::Stores => {
                let mut after = self.clone();
                let answer = after.store(1);
                let mut steps = vec![("the ack stores", after.stored(answer, turn, rules))];
                if self.losses > 0 {
                    let lost = self.after(|it| {
                        it.losses -= 1;
                        it.process = to(Ack::FindsOut);
                    });
                    let applied = lost.after(|it| {
                        let _lost = it.store(1);
                    });
                    steps.push(("the request of the ack is lost", lost));
                    steps.push(("the answer to the ack is lost", applied));
                }
                steps
            }
            // The batch is sent again. It cannot tell its own completion from that of a thief, and need not.
            Ack::FindsOut => {
                let mut after = self.clone();
                let answer = if after.is_stored {
                    Answer::Ok
                } else {
                    after.store(1)
                };
                vec![("the ack finds out", after.stored(answer, turn, rules))]
            }
            Ack::Ended(_) => Vec::new(),
        }
    }

    fn stored(&self, answer: Answer, turn: Turn, rules: Rules<Rule>) -> Self {
        let mut after = self.acked(answer, turn);
        after.fate = match answer {
            Answer::Refused => Fate::Failed,
            Answer::Ok if rules.has(&Rule::StorageIsNoted) => Fate::Stored,
            Answer::Ok => Fate::Waiting,
        };
        after
    }

    fn acked(&self, answer: Answer, turn: Turn) -> Self {
        let mut after = self.after(|it| it.process = Some((Ack::Ended(answer), turn)));
        let is_consumed = self.has_token && answer == Answer::Refused;
        if answer == Answer::Ok && !self.is_durable() {
            after.broken = Some("an answer before anything is durable");
        } else if is_consumed {
            after.broken = Some("a refusal of what its own turn has consumed");
        }
        after
    }

    fn turn_steps(&self, ack: Ack, turn: Turn, rules: Rules<Rule>) -> Vec<Step> {
        let to = |turn| Some((ack, turn));
        let is_storing = matches!(ack, Ack::Stores | Ack::FindsOut);
        match turn {
            Turn::Runs if is_storing => Vec::new(),
            Turn::Runs => {
                let deletes = if self.fate == Fate::Stored {
                    Deletes::Message
                } else {
                    Deletes::Activity
                };
                let commits = self.after(|it| it.process = to(Turn::Commits(deletes)));
                let ends = self.after(|it| it.process = to(Turn::Ended));
                vec![("the turn commits", commits), ("the turn is lost", ends)]
            }
            Turn::Commits(deletes) => {
                let mut after = self.clone();
                let answer = after.commit(deletes, rules);
                after.process = to(match answer {
                    Answer::Ok => Turn::Committed,
                    Answer::Refused => Turn::Ended,
                });
                let is_alone = self.instance == 0 && !self.is_stolen();
                let has_stored = ack == Ack::Ended(Answer::Ok);
                if answer == Answer::Refused && is_alone && has_stored && self.is_stored {
                    after.broken = Some("a turn is lost because its completion was stored");
                }
                let mut steps = vec![("the commit is answered", after)];
                if self.losses > 0 {
                    let lost = self.after(|it| {
                        it.losses -= 1;
                        it.process = to(Turn::FindsOut(deletes));
                    });
                    let applied = lost.after(|it| {
                        let _lost = it.commit(deletes, rules);
                    });
                    steps.push(("the commit is lost", lost));
                    steps.push(("the answer to the commit is lost", applied));
                }
                steps
            }
            Turn::FindsOut(deletes) => {
                let found = if self.has_token {
                    Turn::Committed
                } else {
                    Turn::Commits(deletes)
                };
                let after = self.after(|it| it.process = to(found));
                vec![("the turn finds out", after)]
            }
            Turn::Committed => {
                let after = self.after(|it| {
                    it.process = to(Turn::Ended);
                    if rules.has(&Rule::ConsumptionIsNoted) {
                        it.fate = Fate::Consumed;
                    }
                });
                vec![("the turn ends", after)]
            }
            Turn::Ended => Vec::new(),
        }
    }
}

fn check(rules: Rules<Rule>) -> Explored<State, &'static str> {
    explore(State::start(), |state| state.steps(rules), State::violation)
}

#[test]
fn no_order_of_steps_loses_or_doubles_a_completion() {
    let explored = check(Rules::ALL);
    println!("{} states", explored.states);
    assert_eq!(explored.violation, None);
    assert!(explored.states > 500, "only {} states", explored.states);
    assert_eq!(explored.stuck(State::is_done), None);
}

#[test]
fn each_rule_of_a_hand_over_is_necessary() {
    for (rules, expected) in [
        (
            Rules::without(&[Rule::CommitDeletesAtVersion]),
            "consumed twice",
        ),
        (
            Rules::without(&[Rule::AnswerAfterCommit]),
            "before anything",
        ),
        (Rules::without(&[Rule::CommitHoldsGate]), "a turn is lost"),
        (Rules::without(&[Rule::ConsumptionIsNoted]), "a refusal"),
        (Rules::without(&[Rule::StorageIsNoted]), "a turn is lost"),
    ] {
        let (found, path) = check(rules).violation.expect("a rule is missing");
        assert!(
            found.contains(expected),
            "{rules:?}: {found} after {path:#?}"
        );
    }
}
