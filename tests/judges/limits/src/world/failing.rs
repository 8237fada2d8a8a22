//! What goes wrong in a run, and how processes learn of rules: locks that expire, crashes, pauses, changed rules.

use std::time::Duration;

use crate::machine::Time;

use super::algorithm::Algorithm;
use super::event::{Event, NodeId, Process};
use super::scenario::{FaultKind, secs};
use super::simulation::{LOCK, Node, Simulation};

/// The time within which processes learn of a changed rule.
const LEARNED: Duration = secs(10);

impl<A: Algorithm> Simulation<'_, A> {
    /// Renews the locks of a process, up to the end of its lease.
    pub(super) fn lock_until(&mut self, node: NodeId, now: Time) {
        let node = &mut self.nodes[node];
        let until = node
            .algorithm
            .locked_until()
            .unwrap_or(Time::MAX)
            .min(now + LOCK);
        node.locked_until = node.locked_until.max(until);
        if node.expires_at <= now {
            node.expires_at = node.locked_until;
            self.events
                .push(node.expires_at, Event::Expires(node.process));
        }
    }

    /// Ends the locks of a process that has not renewed them, because it is down, stands still or has no lease.
    pub(super) fn expire(&mut self, process: Process, now: Time) {
        let node = &mut self.nodes[process.node];
        if node.process == process && now < node.locked_until {
            node.expires_at = node.locked_until;
            return self.events.push(node.expires_at, Event::Expires(process));
        }
        for item in self.items.expire(process, now) {
            self.judge.lost_lock(item, now);
        }
    }

    pub(super) fn learn(&mut self, node: NodeId, now: Time) {
        let Node {
            is_down,
            paused_until,
            ..
        } = self.nodes[node];
        if is_down {
            return;
        }
        if now < paused_until {
            return self.events.push(paused_until, Event::LearnsRules(node));
        }
        let Node {
            algorithm, rules, ..
        } = &mut self.nodes[node];
        for (key, rule) in &self.rules {
            if rules.get(key) != Some(rule) {
                rules.insert(key.clone(), *rule);
                algorithm.set_rule(key, *rule, now);
            }
        }
        self.drive(node, now);
    }

    pub(super) fn fail(&mut self, at: usize, now: Time) {
        match &self.scenario.faults[at].kind {
            FaultKind::Crash {
                node,
                restarts_after,
            } => {
                let process = self.nodes[*node].process;
                self.nodes[*node].is_down = true;
                self.judge
                    .died(self.nodes[*node].locking.iter().copied(), now);
                let locked_until = self.nodes[*node].locked_until;
                self.events.push(locked_until, Event::Expires(process));
                if let Some(after) = restarts_after {
                    self.events.push(now + *after, Event::Restarts(*node));
                }
            }
            FaultKind::Pause { node, time } => {
                let until = &mut self.nodes[*node].paused_until;
                *until = (now + *time).max(*until);
            }
            FaultKind::SetRule(key, rule) => {
                self.rules.insert(key.clone(), *rule);
                self.judge.changed(key, *rule, now);
                for node in 0..self.nodes.len() {
                    let at = now + self.random.between(Duration::ZERO, LEARNED);
                    self.events.push(at, Event::LearnsRules(node));
                }
            }
        }
    }

    pub(super) fn restart(&mut self, node: NodeId, now: Time) {
        let incarnation = self.nodes[node].process.incarnation + 1;
        let process = Process { node, incarnation };
        self.nodes[node] = self.start_process(process, now);
        self.learn(node, now);
    }
}
