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

/// The key and the weight of a fair share.
pub(crate) type Share = (Key, u32);

/// Returns the distance between two tags of a share.
fn step(share: &Share) -> u64 {
    STEP / u64::from(share.1.max(1))
}

/// The tags of shares, and the turns of priorities.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The last tag of each share.
    last: HashMap<(Key, Priority), u64>,
    /// The tag of the item of each priority that was started last.
    reached: BTreeMap<Priority, u64>,
    passed_over: BTreeMap<Priority, u32>,
}

impl Turns {
    /// Returns the tag of an item that begins to wait.
    pub(crate) fn tag(&mut self, share: &Share, priority: Priority) -> u64 {
        let reached = self.reached.get(&priority).copied().unwrap_or_default();
        let last = self.last.entry((share.0.clone(), priority));
        let tag = last.and_modify(|last| *last = reached.max(*last + step(share)));
        *tag.or_insert(reached)
    }

    /// Takes back the tag of an item that is not started. Only the last one of a share can be.
    pub(crate) fn untag(&mut self, share: &Share, priority: Priority, tag: u64) {
        if let Some(last) = self.last.get_mut(&(share.0.clone(), priority))
            && *last == tag
        {
            *last = tag.saturating_sub(step(share));
        }
    }

    /// Notes that no item waits. All shares start again without tags.
    pub(crate) fn nothing_waits(&mut self) {
        self.last.clear();
    }

    /// Forgets everything: the rules have changed.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the priority to begin with. Items of a higher one would delay all others.
    pub(crate) fn first(&self) -> Priority {
        let has_waited =
            |priority: &Priority| self.passed_over.get(priority) >= Some(&MAX_PASSED_OVER);
        let lower = [Priority::Low, Priority::Normal];
        lower.into_iter().find(has_waited).unwrap_or(Priority::High)
    }

    /// Notes the tag of an item that is started. Shares of other priorities do not go on: they would wait for the
    /// turns that they have already had.
    pub(crate) fn reached(&mut self, priority: Priority, tag: u64) {
        let reached = self.reached.entry(priority).or_default();
        *reached = tag.max(*reached);
    }

    /// Notes the turn of a priority, and which lower ones could have started an item instead.
    pub(crate) fn took_turn(&mut self, priority: Priority, could_start: impl Fn(Priority) -> bool) {
        self.passed_over.remove(&priority);
        for lower in Priority::ALL {
            if lower > priority && could_start(lower) {
                *self.passed_over.entry(lower).or_insert(0) += 1;
            }
        }
    }
}
