//! The order of the items of one runtime: priorities, fair shares, ages.
//!
//! Fair shares are start-time fair queuing: an item gets the tag at which an ideal server, which serves all shares at
//! once, would begin it. Source: the rules of `local_queue::limiter`, which this module would serve.

use std::collections::{BTreeMap, HashMap};

use super::{ItemId, Key, Time};

/// The distance between two tags of a share with the weight 1.
const STEP: u64 = 1_000_000;

/// The items of higher priorities that are started before one of a lower priority.
const MAX_PASSED_OVER: u32 = 16;

/// The priority of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Priority {
    High,
    #[default]
    Normal,
    Low,
}

impl Priority {
    pub(crate) const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];
}

/// The position of a waiting item. Smaller ones start first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) priority: Priority,
    pub(crate) tag: u64,
    pub(crate) due: Time,
    pub(crate) item: ItemId,
}

impl Rank {
    /// Returns the lower end of a priority.
    pub(crate) fn start_of(priority: Priority) -> Self {
        Self {
            priority,
            tag: 0,
            due: Time::ZERO,
            item: 0,
        }
    }
}

/// The tags of shares, and the turns of priorities.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    last: HashMap<(Key, Priority), u64>,
    reached: BTreeMap<Priority, u64>,
    passed_over: BTreeMap<Priority, u32>,
}

impl Turns {
    /// Returns the tag of an item that begins to wait.
    pub(crate) fn tag(&mut self, share: Option<&(Key, u32)>, priority: Priority) -> u64 {
        let reached = self.reached.get(&priority).copied().unwrap_or_default();
        let Some((key, weight)) = share else {
            return reached;
        };
        let last = self.last.entry((key.clone(), priority));
        let step = STEP / u64::from((*weight).max(1));
        let tag = last.and_modify(|last| *last = reached.max(*last + step));
        *tag.or_insert(reached)
    }

    /// Returns the priority to begin with. Items of a higher one would delay all others.
    pub(crate) fn first(&self) -> Priority {
        let has_waited =
            |priority: &Priority| self.passed_over.get(priority) >= Some(&MAX_PASSED_OVER);
        let lower = [Priority::Low, Priority::Normal];
        lower.into_iter().find(has_waited).unwrap_or(Priority::High)
    }

    /// Notes the start of an item, and which lower priorities could have started one instead.
    pub(crate) fn started(&mut self, rank: Rank, could_start: impl Fn(Priority) -> bool) {
        let reached = self.reached.entry(rank.priority).or_default();
        *reached = rank.tag.max(*reached);
        self.passed_over.remove(&rank.priority);
        for lower in Priority::ALL {
            if lower > rank.priority && could_start(lower) {
                *self.passed_over.entry(lower).or_insert(0) += 1;
            }
        }
    }
}
