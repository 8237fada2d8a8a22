//! Runs a scenario with an algorithm, and reports what happens to the judge.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use crate::judge::{Judge, Report};
use crate::machine::{ItemId, Key, Rule, Time};

use super::algorithm::Algorithm;
use super::event::{Event, Events, NodeId, Process};
use super::items::{Items, index};
use super::network::TIMEOUT;
use super::polls::POLLS;
use super::random::Random;
use super::scenario::{Scenario, millis, secs};

/// The time that the service takes for one write of a document. Writes of one document follow each other.
const WRITE: Duration = millis(6);
/// The longest line of writes of one document. Later ones get 449.
const LONGEST_LINE: Duration = millis(600);
/// The lock of an item, and how often a process renews the locks.
pub(super) const LOCK: Duration = secs(30);
const RENEWED: Duration = secs(5);

pub(super) struct Node<A> {
    pub(super) process: Process,
    pub(super) algorithm: A,
    pub(super) is_down: bool,
    pub(super) paused_until: Time,
    /// What runs, with the tokens of the locks, and what is being locked.
    pub(super) running: HashMap<ItemId, u64>,
    pub(super) locking: HashSet<ItemId>,
    /// The items that the algorithm knows, apart from those that end.
    pub(super) known: BTreeSet<ItemId>,
    pub(super) open: HashSet<u64>,
    pub(super) locked_until: Time,
    pub(super) expires_at: Time,
    pub(super) wakes_at: Option<Time>,
    pub(super) rules: BTreeMap<Key, Rule>,
}

pub(super) struct Simulation<'a, A: Algorithm> {
    pub(super) scenario: &'a Scenario,
    pub(super) random: Random,
    pub(super) events: Events<Event<A::Request, A::Reply>>,
    pub(super) store: A::Store,
    /// The times until which documents are written.
    pub(super) written_until: HashMap<Key, Time>,
    pub(super) items: Items,
    pub(super) nodes: Vec<Node<A>>,
    pub(super) rules: BTreeMap<Key, Rule>,
    pub(super) judge: Judge<'a>,
    pub(super) requests: u64,
}

/// Runs a scenario.
pub(crate) fn run<A: Algorithm>(scenario: &Scenario) -> Report {
    let mut simulation = Simulation::<A>::new(scenario);
    while let Some((now, event)) = simulation.events.pop() {
        if now > scenario.ends_at {
            break;
        }
        simulation.handle(event, now);
    }
    simulation.judge.report(scenario.ends_at)
}

impl<'a, A: Algorithm> Simulation<'a, A> {
    fn new(scenario: &'a Scenario) -> Self {
        let mut simulation = Self {
            scenario,
            random: Random::new(scenario.seed),
            events: Events::new(),
            store: A::Store::default(),
            written_until: HashMap::new(),
            items: Items::new(scenario.items.len()),
            nodes: Vec::new(),
            rules: scenario.rules.iter().cloned().collect(),
            judge: Judge::new(scenario),
            requests: 0,
        };
        for node in 0..scenario.nodes {
            let process = Process {
                node,
                incarnation: 0,
            };
            let started = simulation.start_process(process, Time::ZERO);
            simulation.nodes.push(started);
            simulation.learn(node, Time::ZERO);
        }
        for (at, item) in scenario.items.iter().enumerate() {
            simulation.events.push(item.born, Event::Schedules(at));
        }
        for (at, fault) in scenario.faults.iter().enumerate() {
            simulation.events.push(fault.at, Event::Fails(at));
        }
        simulation
    }

    pub(super) fn start_process(&mut self, process: Process, now: Time) -> Node<A> {
        let first_poll = now + self.random.between(Duration::ZERO, POLLS.1);
        self.events.push(first_poll, Event::Polls(process));
        self.events.push(now, Event::Renews(process));
        Node {
            process,
            algorithm: A::new(&format!("{}.{}", process.node, process.incarnation)),
            is_down: false,
            paused_until: Time::ZERO,
            running: HashMap::new(),
            locking: HashSet::new(),
            known: BTreeSet::new(),
            open: HashSet::new(),
            locked_until: Time::ZERO,
            expires_at: Time::ZERO,
            wakes_at: None,
            rules: BTreeMap::new(),
        }
    }

    fn handle(&mut self, event: Event<A::Request, A::Reply>, now: Time) {
        if let Some(process) = event.recipient() {
            let node = &self.nodes[process.node];
            if node.is_down || node.process != process {
                return;
            }
            if now < node.paused_until {
                return self.events.push(node.paused_until, event);
            }
        }
        match event {
            Event::Schedules(at) => self.schedule(at, now),
            Event::Arrives {
                from,
                number,
                request,
            } => self.serve(from, number, &request, now),
            Event::Answered { to, number, reply } | Event::TimesOut { to, number, reply } => {
                let node = &mut self.nodes[to.node];
                if node.open.remove(&number) {
                    node.algorithm.answer(reply, now);
                    self.drive(to.node, now);
                }
            }
            Event::Polls(process) => self.poll(process, now),
            Event::PollServed(to) => {
                let found = self.items.visible(&self.scenario.items, to.node, now);
                let at = now + self.scenario.network.way(&mut self.random);
                self.events.push(at, Event::PollAnswered { to, found });
            }
            Event::PollAnswered { to, found } => self.found(to.node, &found, now),
            Event::ClaimServed { from, item } => self.claim(from, item, now),
            Event::ClaimAnswered { to, item, token } => self.claimed(to, item, token, now),
            Event::Ends { at, item } => self.end(at, item, now),
            Event::Wakes(process) => {
                let node = &mut self.nodes[process.node];
                node.wakes_at = None;
                node.algorithm.tick(now);
                self.drive(process.node, now);
            }
            Event::Renews(process) => {
                self.lock_until(process.node, now);
                self.events.push(now + RENEWED, Event::Renews(process));
            }
            Event::Expires(process) => self.expire(process, now),
            Event::LearnsRules(node) => self.learn(node, now),
            Event::Fails(at) => self.fail(at, now),
            Event::Restarts(node) => self.restart(node, now),
        }
    }

    fn claim(&mut self, from: Process, item: ItemId, now: Time) {
        let token = self.items.lock(item, from);
        let node = &self.nodes[from.node];
        if node.is_down || node.process != from {
            self.events.push(now + LOCK, Event::Expires(from));
        }
        let at = now + self.scenario.network.way(&mut self.random);
        let answer = Event::ClaimAnswered {
            to: from,
            item,
            token,
        };
        self.events.push(at, answer);
    }

    fn schedule(&mut self, at: usize, now: Time) {
        let item = &self.scenario.items[at];
        let node = &mut self.nodes[item.node];
        let is_up = !node.is_down && now >= node.paused_until;
        self.judge.waits(item.id, now);
        self.items
            .schedule(item.id, is_up.then_some(node.process), now);
        if is_up {
            let spread = self.random.next();
            node.known.insert(item.id);
            node.algorithm.add(item, false, spread, now);
            self.drive(item.node, now);
        }
    }

    /// Starts what can start, and sends what is due.
    pub(super) fn drive(&mut self, node: NodeId, now: Time) {
        loop {
            let Node {
                process,
                algorithm,
                running,
                locking,
                ..
            } = &mut self.nodes[node];
            if running.len() + locking.len() >= self.scenario.workers {
                break;
            }
            let Some(item) = algorithm.pick(now) else {
                break;
            };
            self.judge.assigned(item, now);
            let process = *process;
            if self.items.is_reserved(item, process, now) {
                let token = self.items.lock(item, process);
                self.locked(process, item, token, now);
            } else {
                locking.insert(item);
                let at = now + self.scenario.network.way(&mut self.random);
                self.events.push(
                    at,
                    Event::ClaimServed {
                        from: process,
                        item,
                    },
                );
            }
        }
        self.send(node, now);
        let Node {
            process,
            algorithm,
            wakes_at,
            ..
        } = &mut self.nodes[node];
        if let Some(at) = algorithm.wake_at() {
            let at = at.max(now + millis(2));
            if wakes_at.is_none_or(|earlier| at < earlier) {
                *wakes_at = Some(at);
                self.events.push(at, Event::Wakes(*process));
            }
        }
    }

    fn send(&mut self, node: NodeId, now: Time) {
        let Node {
            process,
            algorithm,
            running,
            locking,
            ..
        } = &mut self.nodes[node];
        let process = *process;
        let room = self
            .scenario
            .workers
            .saturating_sub(running.len() + locking.len());
        for request in algorithm.requests(room, now) {
            self.requests += 1;
            let number = self.requests;
            self.judge.requested(&A::document(&request));
            let reply = A::lost(&request);
            let journey = self.scenario.network.journey(&mut self.random);
            for (copy, after) in journey.arrives_after.iter().enumerate() {
                // Only the first copy of a request is answered.
                let is_answered = copy == 0 && journey.answers_after.is_some();
                let number = if is_answered { number } else { 0 };
                let request = request.clone();
                self.events.push(
                    now + *after,
                    Event::Arrives {
                        from: process,
                        number,
                        request,
                    },
                );
            }
            self.nodes[node].open.insert(number);
            self.events.push(
                now + TIMEOUT,
                Event::TimesOut {
                    to: process,
                    number,
                    reply,
                },
            );
        }
    }

    fn serve(&mut self, from: Process, number: u64, request: &A::Request, now: Time) {
        let document = A::document(request);
        let mut served_at = now;
        let reply = if A::is_write(request) {
            let until = self.written_until.entry(document.clone()).or_default();
            if now + LONGEST_LINE < *until {
                A::busy(request)
            } else {
                *until = now.max(*until) + WRITE;
                served_at = *until;
                A::serve(&mut self.store, request)
            }
        } else {
            A::serve(&mut self.store, request)
        };
        if let Some(fault) = A::fault(&self.store, &document) {
            self.judge.fault(&fault, now);
        }
        if number != 0 {
            let at = served_at + self.scenario.network.way(&mut self.random);
            self.events.push(
                at,
                Event::Answered {
                    to: from,
                    number,
                    reply,
                },
            );
        }
    }

    fn claimed(&mut self, process: Process, item: ItemId, token: Option<u64>, now: Time) {
        self.nodes[process.node].locking.remove(&item);
        self.locked(process, item, token, now);
        self.drive(process.node, now);
    }

    /// Starts a locked item, if it may still start.
    fn locked(&mut self, process: Process, item: ItemId, token: Option<u64>, now: Time) {
        // An answer that comes after the end of the lock is worth nothing.
        let valid = token.filter(|token| self.items.holds(item, *token));
        let node = &mut self.nodes[process.node];
        let Some(token) = valid.filter(|_| node.algorithm.may_start(item, now)) else {
            node.algorithm.not_started(item, now);
            self.judge.unassigned(item, now);
            if let Some(token) = token {
                self.items.release(item, token, now);
            }
            return;
        };
        node.running.insert(item, token);
        self.judge.starts(item, now);
        self.lock_until(process.node, now);
        let ends_at = now + self.scenario.items[index(item)].duration;
        self.events.push(ends_at, Event::Ends { at: process, item });
    }

    fn end(&mut self, process: Process, item: ItemId, now: Time) {
        let node = &mut self.nodes[process.node];
        if let Some(token) = node.running.remove(&item) {
            if self.items.end(item, token) {
                self.judge.ends(item, now);
            }
            node.algorithm.ended(item, now);
        }
        self.drive(process.node, now);
    }
}
