//! One timer per key.

use std::collections::{BTreeSet, HashMap};

use super::{Key, Time};

/// The timers of a process.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    at: HashMap<Key, Time>,
    order: BTreeSet<(Time, Key)>,
}

impl Timers {
    /// Sets the timer of a key, in place of an earlier one.
    pub(crate) fn set(&mut self, key: &Key, at: Option<Time>) {
        if let Some(before) = self.at.remove(key) {
            self.order.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            self.at.insert(key.clone(), at);
            self.order.insert((at, key.clone()));
        }
    }

    /// Removes the timers that are due, and returns their keys.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<Key> {
        let mut due = Vec::new();
        while self.order.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.order.pop_first() {
                self.at.remove(&key);
                due.push(key);
            }
        }
        due
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }
}
