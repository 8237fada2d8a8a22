//! The owner of a partition of ordered work, and the handler of its message.
//!
//! Two coordinators maintain the partition once per unit of time. The roster may move the partition
//! from one share to the other, and a coordinator may crash. A handler takes longer than an adoption
//! lasts.

use super::explore::{Explored, explore};
use super::fairness::{Action, CHANCE, action, assert_contains};
use super::rules::Rules;

/// The rule, which is necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A coordinator does not take a partition that it holds (`ownership.rs` of the work crate).
    /// Otherwise it does, and the new fence voids the claim of its own handler.
    OwnedIsNotFree,
}

const HANDLER: u8 = 4;
const LEASE: u8 = 2;

/// How long a coordinator keeps a partition outside of its share that stayed free.
const ADOPTION: u8 = 2;

const COORDINATORS: [&str; 2] = ["coordinator 1", "coordinator 2"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Coordinator {
    is_dead: bool,
    /// Whether it has maintained its partitions in this unit of time.
    is_maintained: bool,
    /// The rest of the running handler, whose claim is valid.
    handler: Option<u8>,
    /// The rest of the adoption.
    adopted: u8,
    /// Whether its last search found the partition free.
    seen_free: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Message {
    Absent,
    Due,
    Completed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    coordinators: [Coordinator; 2],
    /// The coordinator that should hold the partition.
    share: usize,
    owner: Option<usize>,
    /// The rest of the owner's lease.
    lease: u8,
    message: Message,
    /// The remaining events.
    moves: u8,
    crashes: u8,
}

type Steps = Vec<(Action, State)>;

impl State {
    /// The first coordinator holds the partition.
    fn start() -> Self {
        Self {
            coordinators: [Coordinator::default(); 2],
            share: 0,
            owner: Some(0),
            lease: LEASE,
            message: Message::Absent,
            moves: 2,
            crashes: 1,
        }
    }

    fn waits(&self) -> bool {
        self.message == Message::Due
    }

    fn steps(&self, rules: Rules<Rule>) -> Steps {
        let mut steps = Vec::new();
        if self.message == Message::Completed {
            return steps;
        }
        for (by, name) in COORDINATORS.into_iter().enumerate() {
            let step = self.act(by, rules);
            steps.extend(step.map(|(what, after)| (action(name, what), after)));
        }
        if steps.is_empty() {
            steps.push(self.pass());
        }
        self.chances(&mut steps);
        steps
    }

    fn wants(&self, by: usize) -> bool {
        self.share == by || self.coordinators[by].adopted > 0
    }

    /// Returns the next step of a coordinator: its handler first, then its upkeep.
    fn act(&self, by: usize, rules: Rules<Rule>) -> Option<(&'static str, Self)> {
        let coordinator = self.coordinators[by];
        let mut after = self.clone();
        let what = match coordinator.handler {
            _ if coordinator.is_dead => return None,
            Some(0) => {
                after.message = Message::Completed;
                "completes the message"
            }
            None if self.waits() && self.owner == Some(by) && self.wants(by) => {
                after.coordinators[by].handler = Some(HANDLER);
                "starts the handler"
            }
            _ if coordinator.is_maintained => return None,
            _ => {
                after.coordinators[by].is_maintained = true;
                after.maintain(by, rules)
            }
        };
        Some((what, after))
    }

    /// One round of upkeep, in the order of the work crate.
    fn maintain(&mut self, by: usize, rules: Rules<Rule>) -> &'static str {
        let is_held = self.owner == Some(by);
        let is_running = self.coordinators[by].handler.is_some();
        let is_free = self.owner.is_none() || self.lease == 0;
        if self.wants(by) {
            if is_held || !is_free {
                return "";
            }
            self.take(by);
            return "takes the partition";
        }
        if is_held && !is_running {
            self.owner = None;
            return "releases the partition";
        }
        // The search for partitions that stay free, outside of the share.
        let is_free = is_free || (is_held && !rules.has(&Rule::OwnedIsNotFree));
        let seen_free = std::mem::replace(&mut self.coordinators[by].seen_free, is_free);
        if is_free && seen_free {
            self.take(by);
            self.coordinators[by].adopted = ADOPTION;
        }
        match (is_held, is_free, seen_free) {
            (_, false, _) => "",
            (false, true, false) => "finds the partition free",
            (true, true, false) => "counts the partition that it holds as free",
            (false, true, true) => "adopts the partition",
            (true, true, true) => "adopts the partition that it holds, which voids its handler",
        }
    }

    /// Takes the partition under a new fence.
    fn take(&mut self, by: usize) {
        self.owner = Some(by);
        self.lease = LEASE;
        for coordinator in &mut self.coordinators {
            coordinator.handler = None;
            coordinator.seen_free = false;
        }
    }

    /// Time passes. A living owner renews its lease.
    fn pass(&self) -> (Action, Self) {
        let mut after = self.clone();
        for coordinator in &mut after.coordinators {
            coordinator.is_maintained = false;
            coordinator.adopted = coordinator.adopted.saturating_sub(1);
            coordinator.handler = coordinator.handler.map(|left| left - 1);
        }
        let is_dead = self
            .owner
            .is_some_and(|owner| self.coordinators[owner].is_dead);
        after.lease = if is_dead {
            self.lease.saturating_sub(1)
        } else {
            LEASE
        };
        (action("time", "passes"), after)
    }

    fn chances(&self, steps: &mut Steps) {
        if self.message == Message::Absent {
            let mut after = self.clone();
            after.message = Message::Due;
            steps.push((action(CHANCE, "a message arrives"), after));
        }
        let other = 1 - self.share;
        let is_other_dead = self.coordinators[other].is_dead;
        if self.moves > 0 && !is_other_dead {
            let mut after = self.clone();
            after.moves -= 1;
            after.share = other;
            let what = format!(
                "the partition moves to the share of {}",
                COORDINATORS[other]
            );
            steps.push((action(CHANCE, what), after));
        }
        for (by, name) in COORDINATORS.into_iter().enumerate() {
            let mut after = self.clone();
            after.coordinators[by] = Coordinator::default();
            after.coordinators[by].is_dead = true;
            after.share = 1 - by;
            if let Some(crashes) = self.crashes.checked_sub(1) {
                after.crashes = crashes;
                steps.push((action(CHANCE, format!("{name} crashes")), after));
            }
        }
    }
}

fn check(rules: Rules<Rule>) -> Explored<State, Action> {
    explore(State::start(), |state| state.steps(rules), |_| None)
}

#[test]
fn a_handler_ends_although_its_partition_leaves_the_share() {
    let explored = check(Rules::ALL);
    println!("{} states", explored.states);
    explored.assert_ends(State::waits);
}

#[test]
fn if_a_held_partition_counts_as_free_its_holder_voids_every_run_of_the_handler() {
    let explored = check(Rules::without(&[Rule::OwnedIsNotFree]));
    let found = explored.endless(State::waits);
    let found = found.expect("a rule is missing").to_string();
    let (before, cycle) = found.split_once("then again and again\n").expect("a cycle");
    assert_contains(
        before,
        &["by chance: the partition moves to the share of coordinator 2"],
    );
    let steps = [
        "coordinator 1: counts the partition that it holds as free",
        "time: passes",
        "coordinator 1: adopts the partition that it holds, which voids its handler",
    ];
    assert_contains(before, &steps);
    assert_contains(
        cycle,
        &["coordinator 1: starts the handler", "time: passes"],
    );
    assert_contains(cycle, &steps);
}
