//! The limits of one process: its lease, its permits and slots, and its waiting items.
//!
//! The owner reports what happens and sends [`Runtime::messages`]. A process whose lease was fenced gets a new name
//! and starts again without permits; what still runs then counts for nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::class::{Holders, release};
use super::holder::{Answer, Holder, Request};
use super::lease::{Lease, LeaseAnswer, LeaseRequest, Standing};
use super::order::{Queue, Waiting};
use super::rule::Rule;
use super::slots::is_usable;
use super::timers::Timers;
use super::{ItemId, Key, RuntimeId, Time};

/// A request to send. Answers name its `runtime`, so those for a former name are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Line(Key, Request),
    Lease(LeaseRequest),
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Line(Key, Answer),
    Lease(LeaseRequest, LeaseAnswer),
}

/// An item that uses permits.
#[derive(Debug)]
struct Running {
    keys: Arc<[Key]>,
    slots: Vec<(Key, Time)>,
}

/// The limits of one process.
#[derive(Debug)]
pub(crate) struct Runtime {
    id: RuntimeId,
    /// How often the process was fenced.
    generation: u32,
    lease: Lease,
    rules: HashMap<Key, Rule>,
    holders: Holders,
    queue: Queue,
    running: HashMap<ItemId, Running>,
    /// The runtimes that this process, or another one, has fenced.
    dead: BTreeSet<RuntimeId>,
    /// The ended leases that a poll has found.
    to_fence: BTreeMap<RuntimeId, Time>,
    /// The keys to look at.
    touched: BTreeSet<Key>,
    timers: Timers,
}

impl Runtime {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            id: name.into(),
            generation: 0,
            lease: Lease::new(),
            rules: HashMap::new(),
            holders: Holders::new(),
            queue: Queue::default(),
            running: HashMap::new(),
            dead: BTreeSet::new(),
            to_fence: BTreeMap::new(),
            touched: BTreeSet::new(),
            timers: Timers::default(),
        }
    }

    pub(crate) fn id(&self) -> &RuntimeId {
        &self.id
    }

    /// Returns the time beyond which locks of limited activities are not renewed; `None` without limits.
    pub(crate) fn locked_until(&self) -> Option<Time> {
        (!self.rules.is_empty()).then(|| self.lease.until())
    }

    /// Applies the rules. What runs already is counted.
    pub(crate) fn set_rule(&mut self, key: &Key, rule: Rule, now: Time) {
        self.rules.insert(key.clone(), rule);
        let rules = &self.rules;
        let rule_of = |key: &Key| rules.get(key).copied().unwrap_or_default();
        self.queue.sort_keys(&rule_of, &mut self.holders, now);
        self.touched.extend(self.holders.keys().cloned());
        if let Some(holder) = self.holders.get_mut(key) {
            holder.set_rule(rule);
        }
        self.touch(key);
    }

    pub(crate) fn rule(&self, key: &Key) -> Rule {
        self.rules.get(key).copied().unwrap_or_default()
    }

    /// Adds a waiting item.
    pub(crate) fn add(&mut self, waiting: &Waiting, now: Time) {
        for key in &*waiting.keys {
            let rule = self.rule(key);
            let new = || Holder::new(self.id.clone(), rule);
            self.holders.entry(key.clone()).or_insert_with(new);
            self.touched.insert(key.clone());
        }
        self.queue.add(waiting, now);
    }

    pub(crate) fn knows(&self, item: ItemId) -> bool {
        self.queue.contains(item) || self.running.contains_key(&item)
    }

    /// Removes an item that another runtime has.
    pub(crate) fn remove(&mut self, item: ItemId, now: Time) {
        if let Some(keys) = self.queue.remove(item, &mut self.holders, now) {
            keys.iter().for_each(|key| self.touch(key));
        }
    }

    /// Notes leases that have ended, as a poll has found them.
    pub(crate) fn found_ended(&mut self, id: &RuntimeId, until: Time, is_dead: bool) {
        if *id == self.id {
            return;
        }
        if !is_dead {
            self.to_fence.insert(id.clone(), until);
        } else if self.dead.insert(id.clone()) {
            self.touched.extend(self.holders.keys().cloned());
        }
    }

    /// Returns the next item to start, with the permits of all its keys.
    pub(crate) fn pick(&mut self, now: Time) -> Option<ItemId> {
        let is_leased = self.lease.is_valid(now);
        let start = self.queue.pick(&mut self.holders, is_leased, now)?;
        start.keys.iter().for_each(|key| self.touch(key));
        let (item, keys, slots) = (start.item, start.keys, start.slots);
        self.running.insert(item, Running { keys, slots });
        Some(item)
    }

    /// Returns whether a picked item may start now. Its lock may have come too late for its slots.
    pub(crate) fn may_start(&self, item: ItemId, now: Time) -> bool {
        let is_leased = self.lease.is_valid(now);
        let running = self.running.get(&item);
        let is_usable =
            |running: &Running| running.slots.iter().all(|(_, slot)| is_usable(*slot, now));
        running.is_some_and(|running| running.keys.is_empty() || is_leased && is_usable(running))
    }

    /// Notes that a picked item did not start: its slots are for others.
    pub(crate) fn not_started(&mut self, item: ItemId, now: Time) {
        let running = self.running.get_mut(&item);
        for (key, slot) in running
            .map(|running| std::mem::take(&mut running.slots))
            .unwrap_or_default()
        {
            if let Some(holder) = self.holders.get_mut(&key) {
                holder.slots.put_back(slot);
            }
        }
        self.ended(item, now);
    }

    /// Notes the end of an item.
    pub(crate) fn ended(&mut self, item: ItemId, now: Time) {
        let Some(running) = self.running.remove(&item) else {
            return;
        };
        for key in &*running.keys {
            release(&mut self.holders, key, now);
            self.touch(key);
        }
    }

    /// Notes an answer.
    pub(crate) fn on(&mut self, reply: Reply, now: Time) {
        match reply {
            Reply::Line(key, answer) => {
                if let Some(holder) = self.holders.get_mut(&key) {
                    holder.on(answer, now);
                }
                self.touch(&key);
            }
            Reply::Lease(LeaseRequest::Renew(..), answer) => {
                if self.lease.on(answer, now) == Standing::Fenced {
                    self.restart();
                }
                self.touched.extend(self.holders.keys().cloned());
            }
            Reply::Lease(LeaseRequest::Fence(id, until), answer) => match answer {
                LeaseAnswer::Written => self.found_ended(&id, until, true),
                // A refused one was renewed; the next poll tells.
                LeaseAnswer::Refused | LeaseAnswer::Lost => {}
            },
        }
    }

    /// Begins again with a new name and without permits.
    fn restart(&mut self) {
        self.generation += 1;
        let name = self.id.split('+').next().unwrap_or_default();
        self.id = format!("{name}+{}", self.generation).into();
        self.lease = Lease::new();
        self.running.clear();
        self.queue.forget_kept();
        for (key, holder) in &mut self.holders {
            *holder = Holder::new(self.id.clone(), *holder.rule());
            self.touched.insert(key.clone());
        }
    }

    /// Returns the requests that are due, with `room` for more running items.
    pub(crate) fn messages(&mut self, room: usize, now: Time) -> Vec<Message> {
        let mut messages = Vec::new();
        if self.rules.is_empty() {
            return messages;
        }
        let renewal = self
            .lease
            .renew(now)
            .map(|until| LeaseRequest::Renew(self.id.clone(), until));
        let fences = std::mem::take(&mut self.to_fence).into_iter();
        let fences = fences.map(|(id, until)| LeaseRequest::Fence(id, until));
        messages.extend(renewal.into_iter().chain(fences).map(Message::Lease));
        self.tick(now);
        for key in std::mem::take(&mut self.touched) {
            messages.extend(self.look_at(&key, room, now));
        }
        messages
    }

    fn look_at(&mut self, key: &Key, room: usize, now: Time) -> Option<Message> {
        let (want, changes_at) = self.queue.want(key, &self.holders, room, now);
        let holder = self.holders.get_mut(key)?;
        let request = holder.next(&want, &self.dead, now);
        let slot_at = holder.slots.next_after(now);
        let wake_at = holder
            .wake_at()
            .into_iter()
            .chain(changes_at)
            .chain(slot_at)
            .min();
        self.timers.set(key, wake_at);
        Some(Message::Line(key.clone(), request?))
    }

    /// Returns when to ask for messages and items again.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        let lease = self.lease.next().filter(|_| !self.rules.is_empty());
        self.timers.next().into_iter().chain(lease).min()
    }

    /// Notes that a timer may be due: items may start.
    pub(crate) fn tick(&mut self, now: Time) {
        for key in self.timers.take_due(now) {
            self.touch(&key);
        }
    }

    fn touch(&mut self, key: &Key) {
        self.touched.insert(key.clone());
        self.queue.touch(key);
    }
}
