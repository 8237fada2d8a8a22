//! The items as the service stores them: who has the lock of which.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::machine::{ItemId, Time};

use super::event::{NodeId, Process};
use super::scenario::Item;

/// The time for which an item is reserved for the runtime that has scheduled it.
const RESERVED: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting {
        visible_at: Time,
        reserved: Option<Process>,
    },
    Locked {
        by: Process,
        token: u64,
    },
    Ended,
}

/// The items of a run.
#[derive(Debug)]
pub(crate) struct Items {
    states: Vec<Option<State>>,
    waiting: BTreeSet<ItemId>,
    tokens: u64,
}

impl Items {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            states: vec![None; count],
            waiting: BTreeSet::new(),
            tokens: 0,
        }
    }

    /// Adds an item that a process has scheduled; `None` if the process was down.
    pub(crate) fn schedule(&mut self, item: ItemId, by: Option<Process>, now: Time) {
        let visible_at = now + RESERVED;
        self.set(
            item,
            State::Waiting {
                visible_at,
                reserved: by,
            },
        );
    }

    /// Returns whether the process may start the item without a request.
    pub(crate) fn is_reserved(&self, item: ItemId, by: Process, now: Time) -> bool {
        matches!(self.state(item), Some(State::Waiting { visible_at, reserved }) if reserved == Some(by) && now < visible_at)
    }

    /// Locks a waiting item, and returns the token of the lock.
    pub(crate) fn lock(&mut self, item: ItemId, by: Process) -> Option<u64> {
        let Some(State::Waiting { .. }) = self.state(item) else {
            return None;
        };
        self.tokens += 1;
        let token = self.tokens;
        self.set(item, State::Locked { by, token });
        Some(token)
    }

    /// Returns whether a lock still holds.
    pub(crate) fn holds(&self, item: ItemId, with: u64) -> bool {
        matches!(self.state(item), Some(State::Locked { token, .. }) if token == with)
    }

    /// Ends an item, if the lock still holds.
    pub(crate) fn end(&mut self, item: ItemId, with: u64) -> bool {
        let holds = self.holds(item, with);
        if holds {
            self.set(item, State::Ended);
        }
        holds
    }

    /// Releases a lock, if it still holds.
    pub(crate) fn release(&mut self, item: ItemId, with: u64, now: Time) {
        if self.holds(item, with) {
            self.set(
                item,
                State::Waiting {
                    visible_at: now,
                    reserved: None,
                },
            );
        }
    }

    /// Ends all locks of a process, and returns their items.
    pub(crate) fn expire(&mut self, process: Process, now: Time) -> Vec<ItemId> {
        let states = self.states.iter().enumerate();
        let is_locked = |state: &Option<State>| matches!(state, Some(State::Locked { by, .. }) if *by == process);
        let locked = states.filter(|(_, state)| is_locked(state));
        let items: Vec<_> = locked.map(|(item, _)| item as ItemId).collect();
        for item in &items {
            self.set(
                *item,
                State::Waiting {
                    visible_at: now,
                    reserved: None,
                },
            );
        }
        items
    }

    /// Returns the visible items that a node can run.
    pub(crate) fn visible(&self, all: &[Item], node: NodeId, now: Time) -> Vec<ItemId> {
        let waiting = self.waiting.iter().copied();
        let is_visible = |item: &ItemId| {
            let is_due = matches!(self.state(*item), Some(State::Waiting { visible_at, .. }) if visible_at <= now);
            let item = &all[index(*item)];
            is_due && (!item.is_bound || item.node == node)
        };
        waiting.filter(is_visible).collect()
    }

    pub(crate) fn is_waiting(&self, item: ItemId) -> bool {
        self.waiting.contains(&item)
    }

    fn state(&self, item: ItemId) -> Option<State> {
        self.states[index(item)]
    }

    fn set(&mut self, item: ItemId, state: State) {
        if matches!(state, State::Waiting { .. }) {
            self.waiting.insert(item);
        } else {
            self.waiting.remove(&item);
        }
        self.states[index(item)] = Some(state);
    }
}

pub(crate) fn index(item: ItemId) -> usize {
    usize::try_from(item).unwrap_or(usize::MAX)
}
