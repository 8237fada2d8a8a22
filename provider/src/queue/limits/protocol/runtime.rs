//! The limits of one process: its lease, its permits and slots, and its waiting items.
//!
//! The owner reports what happens and sends [`Runtime::messages`]. A process whose lease was fenced gets a new name
//! and starts again without permits; what still runs then counts for nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::class::{Holders, has_room, release};
use super::holder::{Answer, Holder, Request};
use super::lease::{Lease, LeaseAnswer, LeaseRequest, Standing};
use super::order::{Queue, Waiting};
use super::rank::{Priority, Rank};
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

/// What a process uses of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    /// The time from which on the oldest waiting item has been due.
    pub(crate) oldest: Option<Time>,
}

/// The limits of one process.
#[derive(Debug)]
pub(crate) struct Runtime {
    id: RuntimeId,
    /// How often the process was fenced.
    generation: u32,
    /// Whether there are limits. Without any, nothing is sent.
    is_limited: bool,
    lease: Lease,
    holders: Holders,
    queue: Queue,
    running: HashMap<ItemId, Running>,
    /// The runtimes that this process, or another one, has fenced.
    dead: BTreeSet<RuntimeId>,
    /// The ended leases that this process has seen.
    to_fence: BTreeMap<RuntimeId, Time>,
    /// The keys to look at.
    touched: BTreeSet<Key>,
    /// The keys to look at once there is room for more running items.
    lacking_room: BTreeSet<Key>,
    timers: Timers,
}

impl Runtime {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            id: name.into(),
            generation: 0,
            is_limited: false,
            lease: Lease::new(),
            holders: Holders::new(),
            queue: Queue::default(),
            running: HashMap::new(),
            dead: BTreeSet::new(),
            to_fence: BTreeMap::new(),
            touched: BTreeSet::new(),
            lacking_room: BTreeSet::new(),
            timers: Timers::default(),
        }
    }

    pub(crate) fn id(&self) -> &RuntimeId {
        &self.id
    }

    /// Returns the time beyond which locks of limited items are not taken or renewed.
    pub(crate) fn locked_until(&self) -> Time {
        self.lease.until()
    }

    /// Sets the longest time for which an item is locked, which the lease has to outlast.
    pub(crate) fn outlast(&mut self, lock: Duration) {
        self.lease.outlast(lock);
    }

    /// Applies changed rules. All items are forgotten: the owner adds and starts them again, because their keys, or
    /// the order of these, may have changed.
    pub(crate) fn set_rules(
        &mut self,
        is_limited: bool,
        rule_of: &dyn Fn(&Key) -> Rule,
        now: Time,
    ) {
        // A lease is not renewed while there are no limits, so others may have ended it. What runs is then counted under
        // a new name: it would not be counted after a refused renewal.
        let was_leased = !self.lease.until().is_zero();
        if is_limited && !self.is_limited && was_leased && !self.lease.is_valid(now) {
            self.restart();
        }
        self.is_limited = is_limited;
        self.queue.clear();
        for (key, holder) in &mut self.holders {
            holder.set_rule(rule_of(key));
            holder.release_all(now);
            self.touched.insert(key.clone());
        }
        self.running.clear();
    }

    /// Adds an item that waits for its `keys`, each with its rule, in the order of acquisition.
    pub(crate) fn add(&mut self, waiting: &Waiting, rules: &[Rule]) {
        for (key, rule) in waiting.keys.iter().zip(rules) {
            self.hold(key, *rule);
        }
        self.queue.add(waiting);
    }

    fn hold(&mut self, key: &Key, rule: Rule) {
        let new = || Holder::new(self.id.clone(), rule);
        let holder = self.holders.entry(key.clone()).or_insert_with(new);
        holder.set_rule(rule);
        self.touched.insert(key.clone());
    }

    pub(crate) fn is_waiting(&self, item: ItemId) -> bool {
        self.queue.contains(item)
    }

    /// Removes an item that waits no longer.
    pub(crate) fn remove(&mut self, item: ItemId, now: Time) {
        if let Some(keys) = self.queue.remove(item, &mut self.holders, now) {
            keys.iter().for_each(|key| self.touch(key));
        }
    }

    /// Returns all permits that are not in use, from now on: the process ends.
    pub(crate) fn close(&mut self) {
        for (key, holder) in &mut self.holders {
            holder.is_closing = true;
            self.touched.insert(key.clone());
        }
    }

    /// Returns whether the process has permits of any key.
    pub(crate) fn has_permits(&self) -> bool {
        self.holders.values().any(|holder| holder.held > 0)
    }

    /// Notes a lease that has ended.
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

    /// Returns the first accepted item of each priority that has the permits of all its keys.
    pub(crate) fn first_of_each(
        &mut self,
        accepts: &mut dyn FnMut(ItemId) -> bool,
        now: Time,
    ) -> BTreeMap<Priority, Rank> {
        let is_leased = self.lease.is_valid(now);
        let holders = &mut self.holders;
        self.queue.first_of_each(holders, is_leased, accepts, now)
    }

    /// Notes the start of an item. It counts from now on, also if its keys have no permit left.
    pub(crate) fn start(&mut self, item: ItemId, keys: &Arc<[Key]>, rules: &[Rule], now: Time) {
        for (key, rule) in keys.iter().zip(rules) {
            self.hold(key, *rule);
        }
        let slots = self.queue.start(item, keys, &mut self.holders, now);
        keys.iter().for_each(|key| self.touch(key));
        let keys = keys.clone();
        self.running.insert(item, Running { keys, slots });
    }

    /// Returns whether an item that was started may begin now. Its lock may have come too late for its slots.
    pub(crate) fn may_begin(&self, item: ItemId, now: Time) -> bool {
        let is_leased = self.lease.is_valid(now);
        let running = self.running.get(&item);
        let is_usable =
            |running: &Running| running.slots.iter().all(|(_, slot)| is_usable(*slot, now));
        running.is_none_or(|running| running.keys.is_empty() || is_leased && is_usable(running))
    }

    /// Notes that an item has not begun after all: its slots are for others.
    pub(crate) fn not_begun(&mut self, item: ItemId, now: Time) {
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
            Reply::Lease(LeaseRequest::Renew { .. }, answer) => {
                if self.lease.on(answer, now) == Standing::Fenced {
                    self.restart();
                }
                self.touched.extend(self.holders.keys().cloned());
            }
            Reply::Lease(LeaseRequest::Fence(id, until), answer) => match answer {
                LeaseAnswer::Written => self.found_ended(&id, until, true),
                // A refused one was renewed; the next look tells.
                LeaseAnswer::Refused | LeaseAnswer::Lost => {}
            },
        }
    }

    /// Begins again with a new name and without permits.
    fn restart(&mut self) {
        self.generation += 1;
        let name = self.id.split('.').next().unwrap_or_default();
        self.id = format!("{name}.{}", self.generation).into();
        self.lease = self.lease.anew();
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
        if !self.is_limited {
            return messages;
        }
        let renewal = self.lease.renew(&self.id, now);
        let fences = std::mem::take(&mut self.to_fence).into_iter();
        let fences = fences.map(|(id, until)| LeaseRequest::Fence(id, until));
        messages.extend(renewal.into_iter().chain(fences).map(Message::Lease));
        self.tick(now);
        if room > 0 {
            self.touched.append(&mut self.lacking_room);
        }
        for key in std::mem::take(&mut self.touched) {
            messages.extend(self.look_at(&key, room, now));
        }
        messages
    }

    fn look_at(&mut self, key: &Key, room: usize, now: Time) -> Option<Message> {
        let (want, changes_at, lacks_room) = self.queue.want(key, &self.holders, room, now);
        if lacks_room {
            self.lacking_room.insert(key.clone());
        }
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

    /// Returns whether an item with these keys may get their permits soon, as far as is known.
    pub(crate) fn may_get(&self, keys: &[Key]) -> bool {
        let mut holders = keys.iter().filter_map(|key| self.holders.get(key));
        holders.all(Holder::may_get)
    }

    /// Returns whether this process may start an item with these keys beside all that wait for one of them.
    pub(crate) fn has_room(&self, keys: &[Key], now: Time) -> bool {
        let (holders, queue) = (&self.holders, &self.queue);
        let is_free = |key: &Key| {
            let waiting = i64::try_from(queue.waiting(key).0).unwrap_or(i64::MAX);
            has_room(holders, key, now)
                && holders
                    .get(key)
                    .is_some_and(|holder| holder.idle() > waiting)
        };
        self.lease.is_valid(now) && keys.iter().all(is_free)
    }

    /// Returns the runtimes whose leases to look at: some may have ended.
    pub(crate) fn suspects(&self) -> Vec<RuntimeId> {
        let suspects = self.holders.iter().flat_map(|(key, holder)| {
            let is_wanted = self.queue.waiting(key).0 > 0 && holder.idle() <= 0;
            holder.suspects(is_wanted)
        });
        let suspects: BTreeSet<_> = suspects.collect();
        suspects.difference(&self.dead).cloned().collect()
    }

    /// Forgets the keys that were not in use for long.
    pub(crate) fn forget_unused(&mut self, now: Time) {
        let queue = &self.queue;
        self.holders
            .retain(|key, holder| !holder.is_unused(now) || queue.waiting(key).0 > 0);
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.queue.has_items()
    }

    /// Returns what this process uses of each key.
    pub(crate) fn usage(&self) -> Vec<(Key, Usage)> {
        let mut usage = HashMap::<&Key, Usage>::new();
        for key in self.holders.keys() {
            let used = usage.entry(key).or_default();
            (used.waiting, used.oldest) = self.queue.waiting(key);
        }
        for key in self.running.values().flat_map(|running| &*running.keys) {
            usage.entry(key).or_default().running += 1;
        }
        let usage = usage.into_iter();
        usage.map(|(key, usage)| (key.clone(), usage)).collect()
    }

    /// Returns when an item may start, if nothing happens before.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Returns whether [`Runtime::messages`] may have something to send, with `room` for more running items.
    pub(crate) fn is_touched(&self, room: usize) -> bool {
        let lacks_room = room > 0 && !self.lacking_room.is_empty();
        let is_touched = lacks_room || !self.touched.is_empty() || !self.to_fence.is_empty();
        self.is_limited && (is_touched || self.lease.is_new())
    }

    /// Returns when to ask for messages and items again.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        if !self.is_limited {
            // Nothing looks at the timers that were set before.
            return None;
        }
        let timer = self.timers.next().into_iter();
        timer.chain(self.lease.next()).min()
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
