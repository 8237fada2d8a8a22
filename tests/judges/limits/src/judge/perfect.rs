//! A perfect scheduler, to compare waits with: one process that knows everything, in the order of births.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::machine::{Rule, Time};

use super::report::Outcome;

/// Returns the longest wait of these items, which share one key.
pub(super) fn longest_wait(items: &[&Outcome], rule: Rule) -> Duration {
    let mut sorted: Vec<_> = items
        .iter()
        .map(|item| (item.born, item.duration))
        .collect();
    sorted.sort();
    let most = usize::try_from(rule.running.unwrap_or(i64::MAX)).unwrap_or(usize::MAX);
    let mut ends = BinaryHeap::<Reverse<Time>>::new();
    let (mut next_slot, mut longest) = (Time::ZERO, Duration::ZERO);
    for (born, duration) in sorted {
        let mut start = born.max(next_slot);
        if ends.len() >= most
            && let Some(Reverse(free_at)) = ends.pop()
        {
            start = start.max(free_at);
        }
        next_slot = start + rule.interval.unwrap_or_default();
        ends.push(Reverse(start + duration));
        longest = longest.max(start.saturating_sub(born));
    }
    longest
}
