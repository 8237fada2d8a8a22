//! The items of one runtime that need the same keys: which can start, which ask, and which one keeps permits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::holder::Holder;
use super::rank::{Priority, Rank};
use super::timing::KEEPS_AFTER;
use super::{ItemId, Key, Time};

/// The most items of a class that ask at a time.
const MAX_ASKING: usize = 256;

/// The permits and slots of this process, by key.
pub(crate) type Holders = BTreeMap<Key, Holder>;

/// The keys of a class.
pub(super) type ClassId = Arc<[Key]>;

#[derive(Debug, Default)]
pub(super) struct Class {
    pub(super) waiting: BTreeSet<Rank>,
    pub(super) own: BTreeSet<(Time, ItemId)>,
    /// The items of others, by the time at which they begin to ask.
    pub(super) found: BTreeSet<(Time, ItemId)>,
    pub(super) keeper: Option<Keeper>,
}

/// An item that keeps permits of its first keys.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) rank: Rank,
    pub(super) kept: usize,
}

impl Class {
    /// Lets the oldest own item keep the permits of its first keys, as far as they are here.
    pub(super) fn keep(&mut self, keys: &Arc<[Key]>, holders: &mut Holders, now: Time) {
        if keys.len() < 2 {
            return;
        }
        if self.keeper.is_none() {
            // The items of other processes keep permits too, once they ask: such a process may have ended.
            let mut oldest = [self.own.first(), self.found.first()].into_iter().flatten();
            let oldest = oldest.find(|(asks, _)| *asks + KEEPS_AFTER <= now);
            let rank =
                oldest.and_then(|(_, item)| self.waiting.iter().find(|rank| rank.item == *item));
            self.keeper = rank.map(|rank| Keeper {
                rank: *rank,
                kept: 0,
            });
        }
        let Some(keeper) = &mut self.keeper else {
            return;
        };
        while let Some(key) = keys.get(keeper.kept) {
            let holder = holders.get_mut(key);
            let Some(holder) =
                holder.filter(|holder| holder.rule().interval.is_none() && holder.idle() > 0)
            else {
                return;
            };
            // The last key is used at the start.
            if keeper.kept + 1 == keys.len() {
                return;
            }
            holder.acquire(now);
            keeper.kept += 1;
        }
    }

    /// Returns the first accepted item of each priority if an item can start now; `None` while a key is used up.
    pub(super) fn startable(
        &self,
        keys: &[Key],
        holders: &Holders,
        accepts: &mut dyn FnMut(ItemId) -> bool,
        now: Time,
    ) -> Option<Vec<Rank>> {
        let open = |from: usize| keys[from..].iter().all(|key| has_room(holders, key, now));
        // The keeper has the permits, so it is the one that starts.
        if let Some(keeper) = self.keeper.as_ref().filter(|keeper| keeper.kept > 0)
            && open(keeper.kept)
            && accepts(keeper.rank.item)
        {
            return Some(vec![keeper.rank]);
        }
        open(0).then(|| {
            let mut first = |priority| {
                let of_priority = self.waiting.range(Rank::start_of(priority)..);
                let mut of_priority = of_priority.take_while(|rank| rank.priority == priority);
                of_priority.find(|rank| accepts(rank.item)).copied()
            };
            Priority::ALL.into_iter().filter_map(&mut first).collect()
        })
    }

    /// Returns how many items ask for permits and slots now. Those of others ask at once for what is plenty.
    pub(super) fn asking(&self, is_plenty: bool, now: Time) -> usize {
        let until = if is_plenty { Time::MAX } else { now };
        let found = self.found.range(..=(until, ItemId::MAX));
        self.own.len().min(MAX_ASKING) + found.take(MAX_ASKING).count()
    }

    /// Returns how many of `count` items have all keys before `key`.
    pub(super) fn reaching(
        &self,
        id: &ClassId,
        key: &Key,
        holders: &Holders,
        count: usize,
    ) -> usize {
        let place = id.iter().position(|other| other == key).unwrap_or(0);
        let kept = self.keeper.as_ref().map_or(0, |keeper| keeper.kept);
        let keeps = usize::from(kept == place && kept > 0);
        let earlier = id[..place].iter();
        let idle = earlier.filter_map(|key| usize::try_from(holders.get(key)?.idle()).ok());
        let others = count - usize::from(kept > 0).min(count);
        keeps + idle.fold(others, usize::min)
    }

    pub(super) fn changes_at(&self, id: &ClassId, now: Time) -> Option<Time> {
        let asks = self.found.range((now, ItemId::MAX)..).next();
        let asks = asks.map(|(at, _)| *at);
        let is_waiting = self.keeper.is_none() && id.len() > 1;
        let oldest = [self.own.first(), self.found.first()].into_iter().flatten();
        let keeps = oldest
            .filter(|_| is_waiting)
            .map(|(asks, _)| *asks + KEEPS_AFTER)
            .filter(|at| *at > now);
        asks.into_iter().chain(keeps).min()
    }
}

/// Returns whether a key has a permit here, and a slot that is due.
pub(super) fn has_room(holders: &Holders, key: &Key, now: Time) -> bool {
    let Some(holder) = holders.get(key) else {
        return false;
    };
    let is_open = !holder.rule().is_paused() && holder.idle() > 0;
    is_open && (holder.rule().interval.is_none() || holder.slots.due(now) > 0)
}

/// Ends the use of a permit.
pub(crate) fn release(holders: &mut Holders, key: &Key, now: Time) {
    if let Some(holder) = holders.get_mut(key) {
        holder.release(now);
    }
}
