//! What happens in a run: nodes, network, rules, items, faults.

use std::time::Duration;

use crate::machine::{ItemId, Key, Priority, Rule, Time};

use super::network::Network;

/// An activity.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) id: ItemId,
    /// The node whose turn schedules it.
    pub(crate) node: usize,
    pub(crate) born: Time,
    pub(crate) keys: Vec<Key>,
    pub(crate) priority: Priority,
    pub(crate) share: Option<(Key, u32)>,
    pub(crate) duration: Duration,
    /// Whether only its node can run it: a tag, a session.
    pub(crate) is_bound: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum FaultKind {
    /// The process ends, and another one starts after this time.
    Crash {
        node: usize,
        restarts_after: Option<Duration>,
    },
    /// The process stands still.
    Pause { node: usize, time: Duration },
    /// An operator changes a rule.
    SetRule(Key, Rule),
}

#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) at: Time,
    pub(crate) kind: FaultKind,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    /// The items that one process runs at a time.
    pub(crate) workers: usize,
    pub(crate) network: Network,
    pub(crate) rules: Vec<(Key, Rule)>,
    pub(crate) items: Vec<Item>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) ends_at: Time,
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Scenario {
    pub(crate) fn new(name: &str, nodes: usize, round_trip: u64) -> Self {
        Self {
            name: name.to_owned(),
            seed: 1,
            nodes,
            workers: 1_000,
            network: Network {
                round_trip: millis(round_trip),
                lost: 10,
                late: 2,
            },
            rules: Vec::new(),
            items: Vec::new(),
            faults: Vec::new(),
            ends_at: secs(110),
        }
    }

    /// Adds a limit of running items.
    pub(crate) fn running(mut self, key: &str, most: i64) -> Self {
        let rule = Rule {
            version: 1,
            running: Some(most),
            interval: None,
        };
        self.rules.push((key.into(), rule));
        self
    }

    /// Adds a rate, as the time between two starts.
    pub(crate) fn interval(mut self, key: &str, interval: Duration) -> Self {
        let rule = Rule {
            version: 1,
            running: None,
            interval: Some(interval),
        };
        self.rules.push((key.into(), rule));
        self
    }

    /// Adds an item of a node, with keys.
    pub(crate) fn item(
        &mut self,
        node: usize,
        born: Time,
        keys: &[&str],
        duration: Duration,
    ) -> &mut Item {
        let id = self.items.len() as ItemId;
        self.items.push(Item {
            id,
            node,
            born,
            keys: keys.iter().map(|key| Key::from(*key)).collect(),
            priority: Priority::Normal,
            share: None,
            duration,
            is_bound: false,
        });
        let last = self.items.len() - 1;
        &mut self.items[last]
    }

    pub(crate) fn fault(&mut self, at: Time, kind: FaultKind) {
        self.faults.push(Fault { at, kind });
    }
}
