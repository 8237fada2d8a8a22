//! The health of a physical partition, for work that reaches a runtime without a poll of it.
//!
//! The runtime has two instances in a partition that is silent and that its polls do not visit. Its
//! only dispatcher takes instances in the order of their arrival. An instance of a partition that
//! answers arrives at any time. Time passes when the dispatcher cannot act.

use super::explore::{Explored, explore};
use super::fairness::{Action, CHANCE, action, assert_contains, trace};
use super::rules::Rules;

/// The rule, which is necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Every request feeds the health of its partition (`partitions/health` of the client). Otherwise
    /// only polls do.
    HealthOfEveryRequest,
}

/// The time of an attempt without an answer, and of one with an answer.
const SILENCE: u8 = 3;
const TURN: u8 = 1;

/// The backoff of a partition after a failure, and of an instance.
const PARTITION_BACKOFF: u8 = 4;
const INSTANCE_BACKOFF: u8 = 1;

/// The longest wait of an instance whose partition answers: one attempt at a silent partition, and
/// one turn.
const BOUND: u8 = SILENCE + TURN;

/// The instances. The last one is healthy.
const INSTANCES: usize = 3;
const HEALTHY: usize = INSTANCES - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Health {
    Closed,
    Open {
        left: u8,
    },
    /// One attempt tries the partition.
    HalfOpen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Instance {
    /// It has not arrived yet.
    Absent,
    /// It waits in the queue.
    Ready,
    Attempted {
        left: u8,
    },
    Backoff {
        left: u8,
    },
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    instances: [Instance; INSTANCES],
    /// The ready instances, in the order of their arrival.
    queue: Vec<usize>,
    /// Whether the sick partition is silent.
    is_silent: bool,
    health: Health,
    /// How long the healthy instance has waited.
    waited: u8,
}

impl State {
    fn start() -> Self {
        Self {
            instances: [Instance::Ready, Instance::Ready, Instance::Absent],
            queue: vec![0, 1],
            is_silent: true,
            health: Health::Closed,
            waited: 0,
        }
    }

    fn violation(&self) -> Option<String> {
        let what = "a healthy instance waits for more than one attempt at a silent partition";
        (self.waited > BOUND).then(|| what.to_owned())
    }

    /// Whether an instance waits whose partition answers.
    fn waits(&self, at: usize) -> bool {
        let is_due = !matches!(self.instances[at], Instance::Absent | Instance::Done);
        is_due && (at == HEALTHY || !self.is_silent)
    }

    fn steps(&self, rules: Rules<Rule>) -> Vec<(Action, State)> {
        let mut steps = vec![self.dispatch(rules).unwrap_or_else(|| self.pass())];
        if self.instances[HEALTHY] == Instance::Absent {
            let mut after = self.clone();
            after.instances[HEALTHY] = Instance::Ready;
            after.queue.push(HEALTHY);
            steps.push((action(CHANCE, "the healthy instance arrives"), after));
        }
        if self.is_silent {
            let mut after = self.clone();
            after.is_silent = false;
            steps.push((action(CHANCE, "the sick partition answers again"), after));
        }
        steps
    }

    /// Returns the step of the dispatcher; `None` if it waits.
    fn dispatch(&self, rules: Rules<Rule>) -> Option<(Action, Self)> {
        let mut after = self.clone();
        let attempted = |instance: &Instance| matches!(instance, Instance::Attempted { .. });
        let what = match self.instances.iter().position(attempted) {
            Some(at) if self.instances[at] == (Instance::Attempted { left: 0 }) => {
                after.end(at, rules)
            }
            Some(_) => return None,
            None if self.queue.is_empty() => return None,
            None => {
                let at = after.queue.remove(0);
                after.attempt(at)
            }
        };
        Some((action("dispatcher", what), after))
    }

    /// Begins an attempt, unless the partition is in backoff.
    fn attempt(&mut self, at: usize) -> String {
        let pause = match self.health {
            Health::Open { left: 0 } if at != HEALTHY => {
                self.health = Health::HalfOpen;
                None
            }
            Health::Open { left } if at != HEALTHY => Some(left),
            Health::HalfOpen if at != HEALTHY => Some(INSTANCE_BACKOFF),
            Health::Closed | Health::Open { .. } | Health::HalfOpen => None,
        };
        if let Some(left) = pause {
            self.instances[at] = Instance::Backoff { left };
            return format!("leaves instance {at} to the backoff of its partition");
        }
        let is_answered = at == HEALTHY || !self.is_silent;
        let left = if is_answered { TURN } else { SILENCE };
        self.instances[at] = Instance::Attempted { left };
        format!("attempts instance {at}")
    }

    /// Ends an attempt.
    fn end(&mut self, at: usize, rules: Rules<Rule>) -> String {
        let is_answered = at == HEALTHY || !self.is_silent;
        if at != HEALTHY && rules.has(&Rule::HealthOfEveryRequest) {
            let left = PARTITION_BACKOFF;
            self.health = if is_answered {
                Health::Closed
            } else {
                Health::Open { left }
            };
        }
        if is_answered {
            self.instances[at] = Instance::Done;
            return format!("commits instance {at}");
        }
        let left = INSTANCE_BACKOFF;
        self.instances[at] = Instance::Backoff { left };
        format!("has no answer for instance {at}")
    }

    fn pass(&self) -> (Action, Self) {
        let mut after = self.clone();
        if let Health::Open { left } = &mut after.health {
            *left = left.saturating_sub(1);
        }
        if after.instances[HEALTHY] == Instance::Ready {
            after.waited += 1;
        }
        for at in 0..INSTANCES {
            match &mut after.instances[at] {
                Instance::Backoff { left: 1 } => {
                    after.instances[at] = Instance::Ready;
                    after.queue.push(at);
                }
                Instance::Backoff { left } | Instance::Attempted { left } => *left -= 1,
                Instance::Absent | Instance::Ready | Instance::Done => {}
            }
        }
        (action("time", "passes"), after)
    }
}

fn check(rules: Rules<Rule>) -> Explored<State, Action> {
    explore(State::start(), |state| state.steps(rules), State::violation)
}

#[test]
fn a_healthy_instance_waits_for_at_most_one_attempt_at_a_silent_partition() {
    let explored = check(Rules::ALL);
    println!("{} states", explored.states);
    assert_eq!(explored.violation, None);
    for at in 0..INSTANCES {
        explored.assert_ends(|state| state.waits(at));
    }
}

#[test]
fn if_only_polls_feed_the_health_every_instance_of_a_silent_partition_delays_the_others() {
    let explored = check(Rules::without(&[Rule::HealthOfEveryRequest]));
    let (_, steps) = explored.violation.expect("a rule is missing");
    let steps_of_two_attempts = [
        "dispatcher: attempts instance 0",
        "by chance: the healthy instance arrives",
        "time: passes",
        "time: passes",
        "time: passes",
        "dispatcher: has no answer for instance 0",
        "dispatcher: attempts instance 1",
        "time: passes",
    ];
    assert_contains(&trace(&steps), &steps_of_two_attempts);
}
