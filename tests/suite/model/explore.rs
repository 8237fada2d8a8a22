//! Visits every state that can be reached, breadth first, so that the way to a violation is a
//! shortest one.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// A larger number of states indicates a mistake in the model.
const MOST_STATES: usize = 2_000_000;

/// The result of an exploration, with steps of type `L`.
pub(super) struct Explored<S, L> {
    /// The number of states.
    pub(super) states: usize,
    /// The violation, and the steps that lead to it.
    pub(super) violation: Option<(String, Vec<L>)>,
    pub(super) all: Vec<S>,
    /// The predecessor of each state and the step from it.
    from: Vec<Option<(usize, L)>>,
    /// The steps from each state, with their successors.
    pub(super) next: Vec<Vec<(L, usize)>>,
}

/// Explores from `start` along `steps`, until `violation` returns one or all states are visited.
pub(super) fn explore<S: Clone + Eq + Hash + Debug, L: Clone>(
    start: S,
    steps: impl Fn(&S) -> Vec<(L, S)>,
    violation: impl Fn(&S) -> Option<String>,
) -> Explored<S, L> {
    let mut known = HashMap::from([(start.clone(), 0)]);
    let mut found = Explored {
        states: 1,
        violation: None,
        all: vec![start],
        from: vec![None],
        next: Vec::new(),
    };
    let mut at = 0;
    while at < found.all.len() {
        let state = found.all[at].clone();
        if let Some(what) = violation(&state) {
            found.violation = Some((what, found.path(at)));
            break;
        }
        let mut successors = Vec::new();
        for (step, after) in steps(&state) {
            let index = *known.entry(after).or_insert_with_key(|after| {
                found.all.push(after.clone());
                found.from.push(Some((at, step.clone())));
                found.all.len() - 1
            });
            successors.push((step, index));
        }
        found.next.push(successors);
        at += 1;
        assert!(found.all.len() < MOST_STATES, "the model is too large");
    }
    found.states = found.all.len();
    found
}

impl<S: Clone, L: Clone> Explored<S, L> {
    /// The steps from the start to a state.
    pub(super) fn path(&self, mut at: usize) -> Vec<L> {
        let mut steps = Vec::new();
        while let Some((before, step)) = &self.from[at] {
            steps.push(step.clone());
            at = *before;
        }
        steps.reverse();
        steps
    }

    /// The predecessors of each state.
    pub(super) fn before(&self) -> Vec<Vec<usize>> {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.all.len()];
        for (at, successors) in self.next.iter().enumerate() {
            for (_, successor) in successors {
                before[*successor].push(at);
            }
        }
        before
    }

    /// Returns a state that cannot reach a done state, and the steps that lead to it.
    pub(super) fn stuck(&self, is_done: impl Fn(&S) -> bool) -> Option<(Vec<L>, S)> {
        let before = self.before();
        let mut good: Vec<bool> = self.all.iter().map(is_done).collect();
        let mut open: Vec<usize> = (0..good.len()).filter(|at| good[*at]).collect();
        while let Some(at) = open.pop() {
            for &earlier in &before[at] {
                if !std::mem::replace(&mut good[earlier], true) {
                    open.push(earlier);
                }
            }
        }
        let at = good.iter().position(|good| !good)?;
        Some((self.path(at), self.all[at].clone()))
    }
}
