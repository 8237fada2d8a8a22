//! The limits of a queue: which items have the permits to start, and in which order the items of
//! different keys are handed out.
//!
//! Pure: no clock, no I/O. [`protocol::Runtime`] obtains the permits; this
//! module tells it which items wait and run. Without rules, nothing here has an effect.
//!
//! The order is priority, then the tag of the fair share, then age: weighted fair queuing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_coordination::membership::name_hash;
use cdb_coordination::search::Runs;

use crate::queue::limits::protocol::{
    self, ItemId, Message, Reply, Runtime, Share, Turns, Usage, Waiting, acquisition_order,
};
use crate::stored::documents::{self, Labels, Rule};

pub(crate) use crate::queue::limits::protocol::{Key, Origin, Priority};

/// A poll reads on until it has found items of this many keys, if rules distinguish them.
const KEYS_PER_POLL: u32 = 4;

/// The position of an item among those of other keys.
pub(super) type Tag = u64;

/// The rules that select an item.
#[derive(Debug, PartialEq)]
pub(super) struct Selected {
    /// The keys whose limits the item keeps to, all of them, in the order of acquisition.
    keys: Arc<[Key]>,
    limits: Vec<protocol::Rule>,
    /// The fair share; `None` if no rule has a weight.
    share: Option<Share>,
    pub(super) priority: Priority,
}

impl Selected {
    /// Returns whose turns the item takes.
    pub(super) fn place(&self) -> (Option<Key>, Priority) {
        (
            self.share.as_ref().map(|(key, _)| key.clone()),
            self.priority,
        )
    }

    /// Returns whether the item needs permits.
    pub(super) fn is_limited(&self) -> bool {
        !self.keys.is_empty()
    }
}

/// An item that begins to wait for permits.
pub(super) struct Arrival {
    /// The number of its arrival.
    pub(super) item: ItemId,
    pub(super) tag: Tag,
    /// The time from which on it has been due, in any process.
    pub(super) due: protocol::Time,
    pub(super) origin: Origin,
}

/// The limits of a queue with items `K`.
#[derive(Debug)]
pub(crate) struct Limiter<K> {
    rules: Vec<Rule>,
    /// The time of the change of the rules.
    version: i64,
    pub(super) turns: Turns,
    runtime: Runtime,
    /// The items that wait for permits or have some.
    items: HashMap<ItemId, K>,
    clock: (Instant, protocol::Time),
    /// The items of each share that a poll has found.
    polled: (u64, HashMap<(Option<Key>, Priority), u32>),
}

impl<K: Clone> Limiter<K> {
    /// Creates the limits of a process with this name.
    pub(super) fn new(name: &str, now: Instant) -> Self {
        Self {
            rules: Vec::new(),
            version: 0,
            turns: Turns::default(),
            runtime: Runtime::new(name),
            items: HashMap::new(),
            clock: (now, protocol::Time::ZERO),
            polled: (0, HashMap::new()),
        }
    }

    /// Tells the time of the service at a time of this process.
    pub(super) fn set_clock(&mut self, now: Instant, time: protocol::Time) {
        self.clock = (now, time);
    }

    /// Returns the time of the service.
    pub(super) fn time(&self, at: Instant) -> protocol::Time {
        let (now, time) = self.clock;
        match at.checked_duration_since(now) {
            Some(later) => time + later,
            None => time.saturating_sub(now.saturating_duration_since(at)),
        }
    }

    fn instant(&self, at: protocol::Time) -> Instant {
        let (now, time) = self.clock;
        match at.checked_sub(time) {
            Some(later) => now.checked_add(later).unwrap_or(now),
            None => now.checked_sub(time.saturating_sub(at)).unwrap_or(now),
        }
    }

    /// Replaces the rules. All items must be selected again, and wait or start again.
    pub(super) fn set_rules(&mut self, rules: Vec<Rule>, version: i64, now: Instant) {
        self.rules = rules;
        self.version = version;
        self.turns.clear();
        self.items.clear();
        let is_limited = self.rules.iter().any(Rule::is_cap);
        let (rules, now) = (&self.rules, self.time(now));
        let limit_of = |key: &Key| {
            let mut caps = rules.iter().filter(|rule| rule.is_cap());
            limit_of(caps.find(|rule| rule.select.has_key(key)), version)
        };
        self.runtime.set_rules(is_limited, &limit_of, now);
    }

    pub(super) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Returns whether rules order the items of different keys.
    pub(super) fn is_ordered(&self) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.weight.is_some() || rule.priority.is_some())
    }

    /// Returns the rules that select an item; `None` if its order and its start are free. Limits do not concern an
    /// item that is not limitable.
    pub(super) fn select(&self, labels: &Labels, is_limitable: bool) -> Option<Arc<Selected>> {
        let (mut caps, mut share, mut priority) = (BTreeMap::new(), None, None);
        for rule in &self.rules {
            let Some(key) = rule.select.key_of(labels) else {
                continue;
            };
            let key: Key = key.into();
            if rule.is_cap() && is_limitable {
                let limit = || limit_of(Some(rule), self.version);
                caps.entry(key.clone()).or_insert_with(limit);
            }
            if share.is_none() {
                share = rule.weight.map(|weight| (key, weight));
            }
            priority = priority.or(rule.priority);
        }
        let has_weights = self.rules.iter().any(|rule| rule.weight.is_some());
        (self.is_ordered() || !caps.is_empty()).then(|| {
            let limits = caps.iter().map(|(key, limit)| (key.clone(), *limit));
            let keys = acquisition_order(limits.collect());
            let limits = keys.iter().filter_map(|key| caps.get(key).copied());
            Arc::new(Selected {
                limits: limits.collect(),
                keys,
                share: share.or_else(|| has_weights.then(|| ("".into(), 1))),
                priority: priority.unwrap_or_default().into(),
            })
        })
    }

    /// Notes an item that waits for permits.
    pub(super) fn wait(&mut self, key: &K, selected: &Selected, arrival: &Arrival) {
        let item = arrival.item;
        if self.runtime.is_waiting(item) {
            return;
        }
        let waiting = Waiting {
            item,
            keys: selected.keys.clone(),
            priority: selected.priority,
            tag: arrival.tag,
            due: arrival.due,
            origin: arrival.origin,
            spread: name_hash(&format!("{} {item}", self.runtime.id())),
        };
        self.runtime.add(&waiting, &selected.limits);
        self.items.insert(item, key.clone());
    }

    /// Notes that an item does not wait any more.
    pub(super) fn leave(&mut self, item: ItemId, now: Instant) {
        if self.runtime.is_waiting(item) {
            self.runtime.remove(item, self.time(now));
            self.items.remove(&item);
        }
    }

    pub(super) fn is_waiting(&self, item: ItemId) -> bool {
        self.runtime.is_waiting(item)
    }

    /// Notes the start of an item, which counts from now on.
    pub(super) fn start(&mut self, key: &K, item: ItemId, selected: &Selected, now: Instant) {
        let now = self.time(now);
        self.runtime
            .start(item, &selected.keys, &selected.limits, now);
        self.items.insert(item, key.clone());
    }

    /// Returns whether an item that was started may begin at `now`.
    pub(super) fn may_begin(&self, item: ItemId, now: Instant) -> bool {
        self.runtime.may_begin(item, self.time(now))
    }

    /// Notes the end of an item that was started.
    pub(super) fn end(&mut self, item: ItemId, has_begun: bool, now: Instant) {
        let now = self.time(now);
        if has_begun {
            self.runtime.ended(item, now);
        } else {
            self.runtime.not_begun(item, now);
        }
        self.items.remove(&item);
    }

    /// Returns the first waiting item of each priority that may start at `now`, of those that are accepted.
    pub(super) fn first_of_each(
        &mut self,
        now: Instant,
        mut accepts: impl FnMut(&K) -> bool,
    ) -> BTreeMap<Priority, Ready<K>> {
        let now = self.time(now);
        let items = &self.items;
        let mut accepts = |item| items.get(&item).is_some_and(&mut accepts);
        let first = self.runtime.first_of_each(&mut accepts, now);
        let ready = first.into_iter().filter_map(|(priority, rank)| {
            let key = self.items.get(&rank.item)?.clone();
            let (tag, arrival) = (rank.tag, rank.item);
            Some((priority, Ready { key, tag, arrival }))
        });
        ready.collect()
    }

    /// Returns whether an item has a permit of each of its keys here.
    pub(super) fn has_room(&self, item: &Selected, now: Instant) -> bool {
        !item.is_limited() || self.runtime.has_room(&item.keys, self.time(now))
    }

    /// Returns whether any item waits for permits.
    pub(super) fn has_waiting(&self) -> bool {
        self.runtime.has_waiting()
    }

    /// Counts an item that a poll for `enough` items has found, and returns whether it counts as one
    /// that can run. It does not if the poll has found many of its share: a poll that stops at the many
    /// items of one share would never find the others.
    pub(super) fn polled(&mut self, item: &Selected, poll: u64, enough: u32) -> Runs {
        let most = (enough / KEYS_PER_POLL).max(1);
        let (last, counts) = &mut self.polled;
        if *last != poll {
            *last = poll;
            counts.clear();
        }
        let count = counts.entry(item.place()).or_insert(0);
        *count += 1;
        let is_counted = *count <= most;
        Runs::now_if(is_counted && self.runtime.may_get(&item.keys))
    }

    /// Returns when to look for items that may start, if nothing happens before.
    pub(super) fn next_start(&self) -> Option<Instant> {
        Some(self.instant(self.runtime.next_timer()?))
    }

    /// Returns the tag of an item that has become ready.
    pub(super) fn tag(&mut self, item: &Selected) -> Tag {
        let share = item.share.as_ref();
        share.map_or(0, |share| self.turns.tag(share, item.priority))
    }

    /// Takes back the tag of an item that is not handed out.
    pub(super) fn untag(&mut self, item: &Selected, tag: Tag) {
        if let Some(share) = &item.share {
            self.turns.untag(share, item.priority, tag);
        }
    }

    /// Notes that timers may be due.
    pub(super) fn tick(&mut self, now: Instant) {
        self.runtime.tick(self.time(now));
    }

    /// Returns whether requests may be due.
    pub(super) fn is_touched(&self, room: usize) -> bool {
        self.runtime.is_touched(room)
    }

    /// Returns the requests that are due, and when to ask again.
    pub(super) fn messages(
        &mut self,
        room: usize,
        now: Instant,
    ) -> (Vec<Message>, Option<Instant>) {
        let messages = self.runtime.messages(room, self.time(now));
        let wake_at = self.runtime.wake_at().map(|at| self.instant(at));
        (messages, wake_at)
    }

    /// Notes the answer to a request of the process under the name `by`.
    pub(super) fn answer(&mut self, by: &protocol::RuntimeId, reply: Reply, now: Instant) {
        if by == self.runtime.id() {
            self.runtime.on(reply, self.time(now));
        }
    }

    /// Returns the protocol of this process.
    pub(super) fn runtime(&mut self) -> &mut Runtime {
        &mut self.runtime
    }

    /// Returns whether this process has permits of any key.
    pub(super) fn has_permits(&self) -> bool {
        self.runtime.has_permits()
    }

    /// Forgets the keys that were not in use for long.
    pub(super) fn forget_unused(&mut self, now: Instant) {
        self.runtime.forget_unused(self.time(now));
    }

    /// Returns what this process uses of each key.
    pub(super) fn usage(&self) -> Vec<(Key, Usage)> {
        self.runtime.usage()
    }

    /// Returns for how long a limited item may be locked at `now`.
    pub(super) fn lock_time(&mut self, lock: Duration, now: Instant) -> Duration {
        self.runtime.outlast(lock);
        let until = self.runtime.locked_until();
        lock.min(until.saturating_sub(self.time(now)))
    }
}

/// A waiting item that may start.
#[derive(Clone, Debug)]
pub(super) struct Ready<K> {
    pub(super) key: K,
    pub(super) tag: Tag,
    pub(super) arrival: u64,
}

impl From<documents::Priority> for Priority {
    fn from(priority: documents::Priority) -> Self {
        match priority {
            documents::Priority::High => Self::High,
            documents::Priority::Normal => Self::Normal,
            documents::Priority::Low => Self::Low,
        }
    }
}

/// Returns the limits of a rule.
fn limit_of(rule: Option<&Rule>, version: i64) -> protocol::Rule {
    protocol::Rule {
        version,
        running: rule.and_then(|rule| rule.running).map(i64::from),
        interval: rule.and_then(|rule| rule.starts_per_second).map(interval),
    }
}

/// Returns the time between two starts, in whole microseconds, and never too short.
fn interval(rate: f64) -> Duration {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and never negative"
    )]
    Duration::from_micros((1e6 / rate).ceil() as u64)
}

#[cfg(test)]
impl Selected {
    pub(super) fn needs(&self, key: &Key) -> bool {
        self.keys.contains(key)
    }
}
