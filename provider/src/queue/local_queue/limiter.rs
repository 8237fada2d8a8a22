//! The limits of a queue: which keys may start items, and in which order the items of different keys
//! are handed out.
//!
//! Pure: no clock, no I/O. What this process may start of a limited key is its share of the permits,
//! which another module obtains. Without rules, nothing here has an effect.
//!
//! The order of keys is weighted fair queuing: a ready item gets the tag at which an ideal server,
//! which serves all keys at once, would begin it. Tags of a key grow by 1 / weight per item.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_coordination::Runs;

use crate::stored::documents::{Labels, Priority, Rule};

/// The tags between two items of a key with the weight 1.
const STEP: u64 = 1_000_000;

/// A poll reads on until it has found items of this many keys, if rules distinguish them.
const KEYS_PER_POLL: u32 = 4;

/// The starts that may follow each other without a pause, in seconds of the rate.
const BURST: f64 = 1.0;

/// The key of a limit or of a fair share, `tenant=ada`.
pub(crate) type Key = Arc<str>;

/// The position of an item among those of other keys.
pub(super) type Tag = u64;

/// The number of the arrival of an item that waits for a limit.
pub(super) type Place = u64;

/// The rules that select an item.
#[derive(Debug, PartialEq)]
pub(super) struct Selected {
    /// The keys whose limits the item keeps to, all of them.
    caps: Vec<Cap>,
    /// The key and the weight of its fair share.
    share: (Key, u32),
    pub(super) priority: Priority,
}

impl Selected {
    /// Returns whose turns the item takes.
    pub(super) fn place(&self) -> (Key, Priority) {
        (self.share.0.clone(), self.priority)
    }

    /// Returns the distance to the next tag.
    fn step(&self) -> Tag {
        STEP / u64::from(self.share.1.max(1))
    }
}

/// The limits of a key, for all runtimes together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cap {
    pub(crate) key: Key,
    /// The most items that run at a time.
    pub(crate) running: Option<u32>,
    /// The most items that start in a second.
    pub(crate) rate: Option<f64>,
}

/// What one process may start of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Allowance {
    /// The most items that run at a time; `None` without a limit.
    pub(crate) running: Option<u32>,
    /// The most items that start in a second; `None` without a limit.
    pub(crate) rate: Option<f64>,
    /// The end of the allowance. Nothing starts afterwards.
    pub(crate) until: Instant,
}

/// What a process uses of a limited key, and would use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Demand {
    pub(crate) cap: Cap,
    pub(crate) running: u32,
    pub(crate) waiting: u32,
}

impl Demand {
    /// Returns the demand of a key that nothing uses.
    pub(crate) fn nothing(key: &Key) -> Self {
        let cap = Cap {
            key: key.clone(),
            running: None,
            rate: None,
        };
        Self {
            cap,
            running: 0,
            waiting: 0,
        }
    }
}

/// What the queue has to react to.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "items wait for it"]
pub(super) struct News {
    /// An item has ended, so others may start.
    pub(super) has_ended: bool,
    /// The first item waits for a key, so its permits are wanted.
    pub(super) is_wanted: bool,
}

/// A limited key.
#[derive(Debug)]
struct Limited<K> {
    cap: Cap,
    allowance: Option<Allowance>,
    running: u32,
    /// The starts that the rate has left, and when they were counted.
    starts: (f64, Instant),
    /// Due items that wait for the limit.
    parked: BTreeMap<Place, K>,
}

impl<K> Limited<K> {
    fn new(cap: Cap, now: Instant) -> Self {
        Self {
            starts: first_starts(cap.rate, now),
            cap,
            allowance: None,
            running: 0,
            parked: BTreeMap::new(),
        }
    }

    /// Returns whether the key has to be remembered: also until its rate would permit a start again.
    fn is_in_use(&self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.starts.1).as_secs_f64();
        let is_owed = self.cap.rate.is_some_and(|rate| since * rate < 1.0);
        self.running > 0 || !self.parked.is_empty() || self.allowance.is_some() || is_owed
    }

    fn demand(&self) -> Demand {
        Demand {
            cap: self.cap.clone(),
            running: self.running,
            waiting: u32::try_from(self.parked.len()).unwrap_or(u32::MAX),
        }
    }

    /// Counts the starts that the rate has left at `now`.
    fn refill(&mut self, rate: f64, now: Instant) -> f64 {
        let (left, at) = self.starts;
        let since = now.saturating_duration_since(at).as_secs_f64();
        let left = (left + since * rate).min((rate * BURST).max(1.0));
        self.starts = (left, now.max(at));
        left
    }

    /// Returns how many items may start at `now`.
    fn room(&mut self, now: Instant) -> usize {
        if self.cap.running == Some(0) {
            return 0;
        }
        let Some(allowance) = self.allowance.filter(|allowance| allowance.until > now) else {
            return 0;
        };
        let running = allowance.running.map_or(usize::MAX, |most| {
            usize::try_from(most.saturating_sub(self.running)).unwrap_or(usize::MAX)
        });
        let starts = match allowance.rate {
            None => usize::MAX,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates, and never negative"
            )]
            Some(rate) => self.refill(rate, now).max(0.0) as usize,
        };
        running.min(starts)
    }

    /// Returns when the rate permits the next start, if nothing else is in its way.
    fn refilled_at(&self, now: Instant) -> Option<Instant> {
        let allowance = self.allowance.filter(|allowance| allowance.until > now)?;
        let is_full = allowance.running.is_some_and(|most| self.running >= most);
        let rate = allowance.rate.filter(|rate| *rate > 0.0 && !is_full)?;
        let missing = (1.0 - self.starts.0) / rate;
        let wait = Duration::try_from_secs_f64(missing.max(0.0)).ok()?;
        // A little later, so that rounding leaves no start a hair too early.
        let at = self.starts.1.checked_add(wait)? + Duration::from_micros(1);
        (at < allowance.until).then_some(at)
    }
}

/// Returns the starts of a key that begins at `now`: one at most, and less than one of a low rate.
fn first_starts(rate: Option<f64>, now: Instant) -> (f64, Instant) {
    (rate.map_or(0.0, |rate| rate.min(1.0)), now)
}

/// The limits of a queue with items `K`.
#[derive(Debug)]
pub(super) struct Limiter<K> {
    rules: Vec<Rule>,
    limited: HashMap<Key, Limited<K>>,
    /// The keys with parked items.
    blocked: BTreeSet<Key>,
    /// The last tag of each key with a fair share, by priority. Emptied when no item is ready.
    tags: HashMap<(Key, Priority), Tag>,
    /// The tag of the item of each priority that was handed out last.
    reached: BTreeMap<Priority, Tag>,
    news: News,
    /// The items of each key that a poll has found.
    polled: (u64, HashMap<(Key, Priority), u32>),
}

impl<K> Default for Limiter<K> {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            limited: HashMap::new(),
            blocked: BTreeSet::new(),
            tags: HashMap::new(),
            reached: BTreeMap::new(),
            news: News::default(),
            polled: (0, HashMap::new()),
        }
    }
}

impl<K: Clone> Limiter<K> {
    /// Replaces the rules. All items must be selected again. A key keeps its allowance if its limits
    /// have not changed.
    pub(super) fn set_rules(&mut self, rules: Vec<Rule>) {
        self.rules = rules;
        self.blocked.clear();
        self.tags.clear();
        self.reached.clear();
        for limited in self.limited.values_mut() {
            limited.running = 0;
            limited.parked.clear();
        }
    }

    pub(super) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Returns whether rules order the items of different keys.
    pub(super) fn is_ordered(&self) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.weight.is_some() || rule.priority.is_some())
    }

    /// Returns the rules that select an item; `None` if its order and its start are free.
    pub(super) fn select(&self, labels: &Labels) -> Option<Arc<Selected>> {
        let (mut caps, mut share, mut priority) = (Vec::<Cap>::new(), None, None);
        for rule in &self.rules {
            let Some(key) = rule.select.key_of(labels) else {
                continue;
            };
            let key: Key = key.into();
            if rule.is_cap() && caps.iter().all(|cap| cap.key != key) {
                caps.push(Cap {
                    key: key.clone(),
                    running: rule.running,
                    rate: rule.starts_per_second,
                });
            }
            if share.is_none() {
                share = rule.weight.map(|weight| (key, weight));
            }
            priority = priority.or(rule.priority);
        }
        (self.is_ordered() || !caps.is_empty()).then(|| {
            Arc::new(Selected {
                caps,
                share: share.unwrap_or_else(|| ("".into(), 1)),
                priority: priority.unwrap_or_default(),
            })
        })
    }

    /// Returns the state of a key, with these limits.
    fn limited(&mut self, cap: &Cap, now: Instant) -> &mut Limited<K> {
        let limited = self.limited.entry(cap.key.clone());
        let limited = limited.or_insert_with(|| Limited::new(cap.clone(), now));
        if limited.cap != *cap {
            limited.cap = cap.clone();
            limited.allowance = None;
            limited.starts = first_starts(cap.rate, now);
        }
        limited
    }

    /// Returns the first key whose limit does not let the item start.
    pub(super) fn blocks(&mut self, item: &Selected, now: Instant) -> Option<Key> {
        let mut caps = item.caps.iter();
        let cap = caps.find(|cap| self.limited(cap, now).room(now) == 0)?;
        Some(cap.key.clone())
    }

    /// Notes the start of an item.
    pub(super) fn start(&mut self, item: &Selected, now: Instant) {
        for cap in item.caps.iter().filter(|cap| cap.rate.is_some()) {
            self.limited(cap, now).starts.0 -= 1.0;
        }
        self.count(item, now);
    }

    /// Counts an item that runs. One without a permit, because the limit is newer, wants one.
    pub(super) fn count(&mut self, item: &Selected, now: Instant) {
        for cap in &item.caps {
            let limited = self.limited(cap, now);
            limited.running += 1;
            let allowance = limited.allowance;
            self.news.is_wanted |= allowance.is_none_or(|allowance| allowance.until <= now);
        }
    }

    /// Notes the end of an item.
    pub(super) fn end(&mut self, item: &Selected, now: Instant) {
        for cap in &item.caps {
            let limited = self.limited(cap, now);
            limited.running = limited.running.saturating_sub(1);
            self.news.has_ended = true;
        }
    }

    /// Notes that a ready item has left without a start, so that another one may take its place.
    pub(super) fn left(&mut self) {
        self.news.has_ended = true;
    }

    /// Takes what has happened since the last call.
    pub(super) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// Notes an item that waits for the limit of a key.
    pub(super) fn park(&mut self, key: &Key, at: Place, item: K) {
        if let Some(limited) = self.limited.get_mut(key) {
            limited.parked.insert(at, item);
            self.news.is_wanted |= self.blocked.insert(key.clone());
        }
    }

    /// Counts an item that a poll for `enough` items has found, and returns whether it counts as one
    /// that can run. It does not if the poll has found many of its key: a poll that stops at the many
    /// items of one key would never find the others.
    pub(super) fn polled(&mut self, item: &Selected, poll: u64, enough: u32, now: Instant) -> Runs {
        let most = (enough / KEYS_PER_POLL).max(1);
        let (last, counts) = &mut self.polled;
        if *last != poll {
            *last = poll;
            counts.clear();
        }
        let count = counts.entry(item.place()).or_insert(0);
        *count += 1;
        let is_counted = *count <= most;
        Runs::now_if(is_counted && self.blocks(item, now).is_none())
    }

    /// Notes that an item does not wait any more.
    pub(super) fn unpark(&mut self, key: &Key, at: Place) {
        if let Some(limited) = self.limited.get_mut(key) {
            limited.parked.remove(&at);
            if limited.parked.is_empty() {
                self.blocked.remove(key);
            }
        }
    }

    /// Returns the parked items that may start at `now`, as many of a key as its limit lets start.
    pub(super) fn unblocked(&mut self, now: Instant) -> Vec<K> {
        let mut items = Vec::new();
        for key in &self.blocked {
            if let Some(limited) = self.limited.get_mut(key) {
                let room = limited.room(now);
                items.extend(limited.parked.values().take(room).cloned());
            }
        }
        items
    }

    /// Returns when the next parked item may start, if only a rate delays it.
    pub(super) fn next_start(&self, now: Instant) -> Option<Instant> {
        let blocked = self.blocked.iter().filter_map(|key| self.limited.get(key));
        blocked.filter_map(|limited| limited.refilled_at(now)).min()
    }

    /// Returns the tag of an item that has become ready.
    pub(super) fn tag(&mut self, item: &Selected) -> Tag {
        let last = self.tags.get(&item.place());
        let reached = self.reached.get(&item.priority).copied();
        let reached = reached.unwrap_or_default();
        let tag = last.map_or(reached, |last| reached.max(last + item.step()));
        self.tags.insert(item.place(), tag);
        tag
    }

    /// Takes back the tag of an item that is not handed out. Only the last one of a key can be.
    pub(super) fn untag(&mut self, item: &Selected, tag: Tag) {
        if self.tags.get(&item.place()) == Some(&tag) {
            self.tags
                .insert(item.place(), tag.saturating_sub(item.step()));
        }
    }

    /// Notes the tag of an item that is handed out. Keys of other priorities do not go on: they would
    /// wait for the turns that they have already had.
    pub(super) fn reached(&mut self, priority: Priority, tag: Tag) {
        let reached = self.reached.entry(priority).or_default();
        *reached = tag.max(*reached);
    }

    /// Notes that no item is ready. All keys start again without tags.
    pub(super) fn nothing_ready(&mut self) {
        self.tags.clear();
    }

    /// Lowers what this process may start of a key.
    pub(super) fn lower(&mut self, key: &Key, to: Allowance) {
        if let Some(limited) = self.limited.get_mut(key)
            && let Some(allowance) = &mut limited.allowance
        {
            let running = allowance.running.zip(to.running);
            allowance.running = running.map(|(own, new)| own.min(new));
            let rate = allowance.rate.zip(to.rate);
            allowance.rate = rate.map(|(own, new)| own.min(new));
        }
    }

    /// Returns what a key uses.
    pub(super) fn demand(&self, key: &Key) -> Option<Demand> {
        self.limited.get(key).map(Limited::demand)
    }

    /// Returns the items that wait for the limit of a key.
    pub(super) fn parked(&self, key: &Key) -> impl Iterator<Item = &K> {
        let limited = self.limited.get(key).into_iter();
        limited.flat_map(|limited| limited.parked.values())
    }

    /// Sets what this process may start of a key.
    pub(super) fn allow(&mut self, key: &Key, allowance: Option<Allowance>) {
        if let Some(limited) = self.limited.get_mut(key) {
            limited.allowance = allowance;
        }
    }

    /// Returns the limited keys in use.
    pub(super) fn demands(&mut self, now: Instant) -> Vec<Demand> {
        self.limited.retain(|_, limited| limited.is_in_use(now));
        self.limited.values().map(Limited::demand).collect()
    }
}

#[cfg(test)]
pub(super) mod views {
    use std::time::Instant;

    use super::{Key, Limited, Limiter, Selected};

    /// The state of a limited key, for tests.
    #[derive(Debug)]
    pub(in super::super) struct View {
        pub(in super::super) key: Key,
        pub(in super::super) running: usize,
        pub(in super::super) parked: usize,
        pub(in super::super) room: usize,
    }

    impl Selected {
        pub(in super::super) fn needs(&self, key: &Key) -> bool {
            self.caps.iter().any(|cap| cap.key == *key)
        }
    }

    impl<K: Clone> Limiter<K> {
        pub(in super::super) fn views(&self, now: Instant) -> Vec<View> {
            let view = |limited: &Limited<K>| {
                let mut copy = Limited {
                    cap: limited.cap.clone(),
                    allowance: limited.allowance,
                    running: limited.running,
                    starts: limited.starts,
                    parked: limited.parked.clone(),
                };
                View {
                    key: limited.cap.key.clone(),
                    running: limited.running as usize,
                    parked: limited.parked.len(),
                    room: copy.room(now),
                }
            };
            self.limited.values().map(view).collect()
        }
    }
}
