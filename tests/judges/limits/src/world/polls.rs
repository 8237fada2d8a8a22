//! The polls with which a process finds the items of others, and ended leases.

use std::time::Duration;

use crate::machine::{ItemId, Time};

use super::algorithm::Algorithm;
use super::event::{Event, NodeId, Process};
use super::items::index;
use super::scenario::millis;
use super::simulation::{Node, Simulation};

/// The time between two polls of a process, and while it works.
pub(super) const POLLS: (Duration, Duration) = (millis(250), millis(1_250));
const BUSY_POLLS: (Duration, Duration) = (millis(100), millis(300));

impl<A: Algorithm> Simulation<'_, A> {
    pub(super) fn poll(&mut self, process: Process, now: Time) {
        let at = now + self.scenario.network.way(&mut self.random);
        self.events.push(at, Event::PollServed(process));
        let is_idle = self.nodes[process.node].running.is_empty();
        let polls = if is_idle { POLLS } else { BUSY_POLLS };
        let next = now + self.random.between(polls.0, polls.1);
        self.events.push(next, Event::Polls(process));
    }

    pub(super) fn found(&mut self, node: NodeId, found: &[ItemId], now: Time) {
        let ended = A::ended_leases(&self.store, now);
        let Node {
            algorithm,
            known,
            running,
            locking,
            ..
        } = &mut self.nodes[node];
        for ended in &ended {
            algorithm.found_ended(ended);
        }
        for item in found {
            if !algorithm.knows(*item) && self.items.is_waiting(*item) {
                let spread = self.random.next();
                let item = &self.scenario.items[index(*item)];
                known.insert(item.id);
                algorithm.add(item, item.node != node, spread, now);
            }
        }
        // What a poll does not find any more, others have.
        known.retain(|item| {
            let is_gone = !self.items.is_waiting(*item);
            if is_gone && !running.contains_key(item) && !locking.contains(item) {
                algorithm.remove(*item, now);
            }
            !is_gone
        });
        self.drive(node, now);
    }
}
