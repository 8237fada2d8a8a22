//! Finds work that waits for ever although every component acts that can act.
//!
//! A run is fair if every actor that could always act from some time on acts again and again. All
//! infinite runs end in a strongly connected component of the states. So an item waits for ever
//! exactly if there is a component in which it waits in every state, and in which every actor that
//! can act in all states does act.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt;

use super::explore::Explored;

/// The actor of events that may happen and need not: failures, and changes from outside.
pub(super) const CHANCE: &str = "by chance";

/// A step of a model. A step without a text does nothing that a reader of a trace wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) actor: &'static str,
    pub(super) what: String,
}

pub(super) fn action(actor: &'static str, what: impl Into<String>) -> Action {
    let what = what.into();
    Action { actor, what }
}

/// A fair run in which an item waits for ever.
#[derive(Debug)]
pub(super) struct Endless {
    /// The steps to the cycle.
    before: Vec<Action>,
    /// The steps that repeat. Empty if nothing happens.
    cycle: Vec<Action>,
}

/// Writes one step per line.
pub(super) fn trace(steps: &[Action]) -> String {
    let lines = steps.iter().filter(|step| !step.what.is_empty());
    let lines = lines.map(|step| format!("  {}: {}\n", step.actor, step.what));
    lines.collect()
}

/// Asserts that a trace contains these steps, one after the other.
pub(super) fn assert_contains(trace: &str, steps: &[&str]) {
    let lines = format!("  {}\n", steps.join("\n  "));
    assert!(trace.contains(&lines), "{trace}");
}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "first\n{}", trace(&self.before))?;
        match self.cycle.as_slice() {
            [] => writeln!(f, "then nothing happens"),
            cycle => write!(f, "then again and again\n{}", trace(cycle)),
        }
    }
}

type Actors = BTreeSet<&'static str>;

impl<S: Clone> Explored<S, Action> {
    /// Returns a fair run along which the item waits for ever, by a shortest way to its cycle.
    pub(super) fn endless(&self, waits: impl Fn(&S) -> bool) -> Option<Endless> {
        assert_eq!(self.next.len(), self.all.len(), "all states were visited");
        let waiting: Vec<bool> = self.all.iter().map(waits).collect();
        let components = self.components(&waiting).into_iter();
        let fair = components.filter(|component| {
            let always = component.iter().map(|at| self.enabled(*at));
            let always = always.reduce(|one, other| &one & &other);
            always.is_none_or(|always| always.is_subset(&self.acting(component)))
        });
        let first = |component: &HashSet<usize>| component.iter().min().copied();
        let component = fair.min_by_key(first)?;
        let entry = first(&component)?;
        Some(Endless {
            before: self.path(entry),
            cycle: self.cycle(&component, entry),
        })
    }

    /// Asserts that the item waits for ever in no fair run.
    pub(super) fn assert_ends(&self, waits: impl Fn(&S) -> bool) {
        if let Some(found) = self.endless(waits) {
            panic!("an item waits for ever\n{found}");
        }
    }

    /// The actors that can act in a state and have to, if they always can.
    fn enabled(&self, at: usize) -> Actors {
        let actors = self.next[at].iter().map(|(step, _)| step.actor);
        actors.filter(|actor| *actor != CHANCE).collect()
    }

    /// The actors that act within a component.
    fn acting(&self, component: &HashSet<usize>) -> Actors {
        let steps = component.iter().flat_map(|at| &self.next[*at]);
        let inner = steps.filter(|(_, to)| component.contains(to));
        inner.map(|(step, _)| step.actor).collect()
    }

    /// The strongly connected components of the chosen states, by Kosaraju's algorithm.
    fn components(&self, chosen: &[bool]) -> Vec<HashSet<usize>> {
        let mut seen: Vec<bool> = chosen.iter().map(|chosen| !chosen).collect();
        let mut finished = Vec::new();
        for start in 0..seen.len() {
            let mut open = Vec::new();
            if !std::mem::replace(&mut seen[start], true) {
                open.push((start, 0));
            }
            while let Some((at, step)) = open.pop() {
                let Some((_, to)) = self.next[at].get(step) else {
                    finished.push(at);
                    continue;
                };
                open.push((at, step + 1));
                if !std::mem::replace(&mut seen[*to], true) {
                    open.push((*to, 0));
                }
            }
        }
        let before = self.before();
        let mut left: Vec<bool> = chosen.to_vec();
        let mut components = Vec::new();
        for start in finished.into_iter().rev() {
            let mut component = HashSet::new();
            let mut open = vec![start];
            while let Some(at) = open.pop() {
                if std::mem::take(&mut left[at]) {
                    component.insert(at);
                    open.extend(&before[at]);
                }
            }
            components.push(component);
        }
        components.retain(|component| !component.is_empty());
        components
    }

    /// Returns the steps of a fair cycle from `entry` through a fair component.
    fn cycle(&self, component: &HashSet<usize>, entry: usize) -> Vec<Action> {
        let mut steps = Vec::new();
        let mut at = entry;
        // The actors that could act in every state so far, and have not acted.
        let mut waiting = self.enabled(entry);
        while let Some(actor) = waiting.first().copied() {
            let is_served =
                |step: &Action, to| step.actor == actor || !self.enabled(to).contains(actor);
            for (step, to) in self.walk(component, at, is_served) {
                waiting.retain(|actor| step.actor != *actor && self.enabled(to).contains(actor));
                steps.push(step);
                at = to;
            }
        }
        if at != entry {
            let back = self.walk(component, at, |_, to| to == entry);
            steps.extend(back.into_iter().map(|(step, _)| step));
        }
        steps
    }

    /// Returns the shortest walk of at least one step within a component that ends with a step for
    /// which `is_last` is true.
    fn walk(
        &self,
        component: &HashSet<usize>,
        start: usize,
        is_last: impl Fn(&Action, usize) -> bool,
    ) -> Vec<(Action, usize)> {
        let mut seen = HashSet::new();
        let mut open = VecDeque::from([(start, Vec::new())]);
        while let Some((at, way)) = open.pop_front() {
            let inner = self.next[at].iter();
            for (step, to) in inner.filter(|(_, to)| component.contains(to)) {
                let mut way = way.clone();
                way.push((step.clone(), *to));
                if is_last(step, *to) {
                    return way;
                }
                if seen.insert(*to) {
                    open.push_back((*to, way));
                }
            }
        }
        unreachable!("every state of a component can reach the others")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::explore::explore;

    /// Judges a graph of steps `(from, actor, to)` that starts at 0, with an item that waits in all
    /// states but 9.
    fn judge(graph: &[(u8, &'static str, u8)]) -> Option<String> {
        let steps = |at: &u8| {
            let steps = graph.iter().filter(|(from, ..)| from == at);
            let steps =
                steps.map(|(from, actor, to)| (action(actor, format!("{from} to {to}")), *to));
            steps.collect()
        };
        let explored = explore(0, steps, |_| None);
        explored
            .endless(|at| *at != 9)
            .map(|found| found.to_string())
    }

    #[test]
    fn an_actor_that_can_always_act_ends_a_cycle_of_the_others() {
        let graph = [(0, "a", 1), (1, "a", 0), (0, "b", 9), (1, "b", 9)];
        assert_eq!(judge(&graph), None);
    }

    #[test]
    fn an_actor_that_can_act_only_now_and_then_may_never_act() {
        let found = judge(&[(0, "a", 1), (1, "a", 0), (0, "b", 9)]);
        let expected = "first\nthen again and again\n  a: 0 to 1\n  a: 1 to 0\n";
        assert_eq!(found.as_deref(), Some(expected));
    }

    #[test]
    fn an_actor_may_act_in_vain_for_ever() {
        let graph = [
            (0, "a", 1),
            (1, "a", 2),
            (2, "b", 1),
            (1, "b", 1),
            (2, "a", 1),
        ];
        let expected = "first\n  a: 0 to 1\nthen again and again\n  a: 1 to 2\n  b: 2 to 1\n";
        assert_eq!(judge(&graph).as_deref(), Some(expected));
    }

    #[test]
    fn a_chance_need_not_come_true() {
        let found = judge(&[(0, "a", 1), (1, CHANCE, 9)]);
        let expected = "first\n  a: 0 to 1\nthen nothing happens\n";
        assert_eq!(found.as_deref(), Some(expected));
    }

    #[test]
    fn work_that_cannot_wait_for_ever_is_found_done() {
        assert_eq!(judge(&[(0, "a", 1), (0, CHANCE, 1), (1, "b", 9)]), None);
    }
}
