//! The waiting items of one runtime, and the order in which each acquires its keys.
//!
//! An item asks for a key only once the earlier keys are here, and starts once all are. Permits do not wait for it
//! then, except for one item per class: the keeper, after a second. It keeps the permits of its
//! earlier keys, so items with several used-up keys do not starve. Keepers cannot wait for each other in a circle,
//! because all runtimes acquire keys in the same order ([`acquisition_order`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::class::{Class, ClassId, Holders, release};
use super::holder::{Holder, Want};
use super::rank::{Priority, Rank};
use super::rule::Rule;
use super::timing::{AGED, ASKED_AFTER, ASKED_WITHIN, SCATTERED};
use super::{ItemId, Key, Time};

/// Where an item comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// A turn of this process has scheduled it.
    Own,
    /// A poll has found it.
    Found,
}

/// An item that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) item: ItemId,
    /// In the order of acquisition.
    pub(crate) keys: Arc<[Key]>,
    pub(crate) priority: Priority,
    pub(crate) tag: u64,
    pub(crate) due: Time,
    pub(crate) origin: Origin,
    /// A random number, different for each runtime and item.
    pub(crate) spread: u64,
}

/// Sorts keys by the order in which all runtimes acquire them.
pub(crate) fn acquisition_order(mut keys: Vec<(Key, Rule)>) -> Arc<[Key]> {
    keys.sort_by(|(key, rule), (other, other_rule)| {
        let place = rule.place().cmp(&other_rule.place());
        place.then_with(|| key.cmp(other))
    });
    keys.into_iter().map(|(key, _)| key).collect()
}

#[derive(Debug)]
struct Known {
    class: ClassId,
    rank: Rank,
    /// The place in `rank` may be later.
    due: Time,
    /// The place in `own` or `found`.
    at: Time,
}

/// The waiting items of one runtime.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    items: HashMap<ItemId, Known>,
    classes: BTreeMap<ClassId, Class>,
    by_key: HashMap<Key, BTreeSet<ClassId>>,
    /// The classes that may be able to start an item.
    candidates: BTreeSet<ClassId>,
}

impl Queue {
    pub(crate) fn contains(&self, item: ItemId) -> bool {
        self.items.contains_key(&item)
    }

    pub(crate) fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// Returns how many items wait for a key, and the time from which on the oldest has been due.
    pub(crate) fn waiting(&self, key: &Key) -> (usize, Option<Time>) {
        let ids = self.by_key.get(key).into_iter().flatten();
        let classes = ids.filter_map(|id| self.classes.get(id));
        let count = classes.clone().map(|class| class.waiting.len()).sum();
        let ranks = classes.flat_map(|class| &class.waiting);
        (count, ranks.map(|rank| rank.due).min())
    }

    /// Adds an item.
    pub(crate) fn add(&mut self, waiting: &Waiting) {
        if self.contains(waiting.item) {
            return;
        }
        let spread = |within: Duration| {
            Duration::from_micros(waiting.spread % u64::try_from(within.as_micros()).unwrap_or(1))
        };
        let is_found = waiting.origin == Origin::Found;
        // Runtimes with free permits would all try the oldest item at once.
        let scatter = if is_found {
            spread(SCATTERED)
        } else {
            Duration::ZERO
        };
        let rank = Rank {
            priority: waiting.priority,
            tag: waiting.tag,
            due: waiting.due + scatter,
            item: waiting.item,
        };
        let class_id = waiting.keys.clone();
        let class = self.classes.entry(class_id.clone()).or_default();
        class.waiting.insert(rank);
        let at = if is_found {
            // From its due time: a poll may find it again and again.
            waiting.due + ASKED_AFTER + spread(ASKED_WITHIN)
        } else {
            waiting.due
        };
        let asking = if is_found {
            &mut class.found
        } else {
            &mut class.own
        };
        asking.insert((at, waiting.item));
        for key in &*waiting.keys {
            let classes = self.by_key.entry(key.clone()).or_default();
            classes.insert(class_id.clone());
        }
        self.candidates.insert(class_id.clone());
        let class = class_id;
        let due = waiting.due;
        let known = Known {
            class,
            rank,
            due,
            at,
        };
        self.items.insert(waiting.item, known);
    }

    /// Removes an item, and returns its keys. Permits that it has kept become free.
    pub(crate) fn remove(
        &mut self,
        item: ItemId,
        holders: &mut Holders,
        now: Time,
    ) -> Option<Arc<[Key]>> {
        let known = self.items.remove(&item)?;
        let class = self.classes.get_mut(&known.class)?;
        class.waiting.remove(&known.rank);
        class.own.remove(&(known.at, item));
        class.found.remove(&(known.at, item));
        let keys = known.class.clone();
        if let Some(keeper) = class.keeper.take_if(|keeper| keeper.rank.item == item) {
            for key in &keys[..keeper.kept] {
                release(holders, key, now);
            }
        }
        if class.waiting.is_empty() {
            self.classes.remove(&known.class);
            for key in &*keys {
                if let Some(classes) = self.by_key.get_mut(key) {
                    classes.remove(&known.class);
                }
            }
        }
        Some(keys)
    }

    /// Forgets all items, and the permits that keepers have kept: the owner releases them.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes that a key may have got permits or slots.
    pub(crate) fn touch(&mut self, key: &Key) {
        let classes = self.by_key.get(key).into_iter().flatten();
        self.candidates.extend(classes.cloned());
    }

    /// Forgets the permits that keepers have kept: the process was fenced.
    pub(crate) fn forget_kept(&mut self) {
        for (id, class) in &mut self.classes {
            class.keeper = None;
            self.candidates.insert(id.clone());
        }
    }

    /// Starts an item, and uses a permit of each of its `keys`, also if there is none. The slots that it uses are
    /// returned.
    pub(crate) fn start(
        &mut self,
        item: ItemId,
        keys: &[Key],
        holders: &mut Holders,
        now: Time,
    ) -> Vec<(Key, Time)> {
        let class = self.items.get(&item).map(|known| known.class.clone());
        let class = class.and_then(|id| self.classes.get_mut(&id));
        let keeper =
            class.and_then(|class| class.keeper.take_if(|keeper| keeper.rank.item == item));
        let kept = keeper.map_or(0, |keeper| keeper.kept);
        let mut slots = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            let Some(holder) = holders.get_mut(key) else {
                continue;
            };
            if place >= kept {
                holder.acquire(now);
            }
            if holder.rule().interval.is_some() {
                slots.extend(holder.slots.take(now).map(|slot| (key.clone(), slot)));
            }
        }
        self.remove(item, holders, now);
        slots
    }

    /// Returns the first accepted item of each priority that can start now. Without a lease, only items without keys
    /// start.
    pub(crate) fn first_of_each(
        &mut self,
        holders: &mut Holders,
        is_leased: bool,
        accepts: &mut dyn FnMut(ItemId) -> bool,
        now: Time,
    ) -> BTreeMap<Priority, Rank> {
        let classes = &mut self.classes;
        let mut first = BTreeMap::<Priority, Rank>::new();
        let is_open = |id: &ClassId| is_leased || id.is_empty();
        // Before any choice: what is kept for one class cannot start another.
        for id in self.candidates.iter().filter(|id| is_open(id)) {
            if let Some(class) = classes.get_mut(id) {
                class.keep(id, holders, now);
            }
        }
        self.candidates.retain(|id| {
            let Some(class) = classes.get_mut(id) else {
                return false;
            };
            if !is_open(id) {
                return true;
            }
            let startable = class.startable(id, holders, accepts, now);
            for rank in startable.iter().flatten() {
                let best = first.entry(rank.priority).or_insert(*rank);
                *best = (*rank).min(*best);
            }
            startable.is_some()
        });
        first
    }

    /// Returns what the items want of a key, when that changes by itself, and whether they would want more with more
    /// room.
    pub(crate) fn want(
        &self,
        key: &Key,
        holders: &Holders,
        room: usize,
        now: Time,
    ) -> (Want, Option<Time>, bool) {
        let (mut want, mut reaching, mut wake_at) = (Want::default(), 0, None);
        let mut lacks_room = false;
        for id in self.by_key.get(key).into_iter().flatten() {
            let Some(class) = self.classes.get(id) else {
                continue;
            };
            let is_plenty = holders.get(key).is_some_and(Holder::is_plenty);
            let asking = class.asking(is_plenty, now);
            lacks_room |= asking > room;
            let count = asking.min(room);
            let here = class.reaching(id, key, holders, count);
            let changes_at = class.changes_at(id, now);
            wake_at = wake_at.into_iter().chain(changes_at).min();
            if here == 0 {
                continue;
            }
            reaching += here;
            let keeper = class
                .keeper
                .as_ref()
                .filter(|keeper| id.get(keeper.kept) == Some(key));
            let oldest = keeper.map(|keeper| &keeper.rank);
            let oldest = oldest.or(class.waiting.first());
            let oldest = oldest.and_then(|rank| self.items.get(&rank.item));
            let oldest = oldest.map(|known| known.due);
            want.oldest = want.oldest.into_iter().chain(oldest).min();
            let keeps = keeper.is_some_and(|keeper| keeper.kept > 0);
            want.keeps |= keeps;
            let Some(oldest) = oldest else { continue };
            // The items of other processes are out of order by this time.
            let since = if keeps { oldest } else { oldest + SCATTERED };
            if keeps || oldest + AGED <= now {
                want.line = Some(want.line.map_or(since, |earlier| earlier.min(since)));
            } else {
                wake_at = wake_at.into_iter().chain([oldest + AGED]).min();
            }
        }
        let idle = holders.get(key).map_or(0, Holder::idle);
        want.permits = i64::try_from(reaching)
            .unwrap_or(i64::MAX)
            .saturating_sub(idle)
            .max(0);
        let has_permits = usize::try_from(idle).unwrap_or(usize::MAX);
        want.slots = reaching.min(has_permits);
        if want.permits == 0 {
            want.line = None;
        }
        (want, wake_at, lacks_room)
    }
}
