//! One process with today's algorithm: transcribes how `limited.rs`, `handing_out.rs` and `transitions.rs` park items and make
//! them ready.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::machine::{ItemId, Key, Rank, Rule, Time, Turns};
use crate::world::{Algorithm, Ended, Item};

use super::limiter::Limited;
use super::permits::{Keys, Obtaining, Reply, Request, Stored};

#[derive(Debug)]
struct Known {
    item: Item,
    due: Time,
    arrival: u64,
    ready: Option<Rank>,
    parked: Option<Key>,
    is_running: bool,
}

/// Today's algorithm in one process.
#[derive(Debug)]
pub(crate) struct Today {
    me: Key,
    keys: Keys,
    obtaining: Obtaining,
    known: HashMap<ItemId, Known>,
    ready: BTreeSet<Rank>,
    turns: Turns,
    arrivals: u64,
    next: Vec<(Key, Request)>,
}

impl Today {
    /// `limiter.rs`, lines 295 to 299.
    fn blocks(&mut self, item: ItemId, now: Time) -> Option<Key> {
        let keys = &mut self.keys;
        let mut caps = self.known.get(&item)?.item.keys.iter();
        let is_full = |key: &&Key| {
            keys.get_mut(*key)
                .is_some_and(|limited| limited.room(now) == 0)
        };
        caps.find(is_full).cloned()
    }

    /// `transitions.rs`: parks the item, or makes it ready.
    fn rank(&mut self, id: ItemId, now: Time) {
        self.unrank(id);
        let blocked = self.blocks(id, now);
        let Some(known) = self.known.get_mut(&id).filter(|known| !known.is_running) else {
            return;
        };
        if let Some(key) = blocked {
            if let Some(limited) = self.keys.get_mut(&key) {
                self.obtaining.is_wanted |= limited.parked.is_empty();
                limited.parked.insert(known.arrival, id);
            }
            known.parked = Some(key);
        } else {
            let Item {
                priority, share, ..
            } = &known.item;
            let tag = self.turns.tag(share.as_ref(), *priority);
            let rank = Rank {
                priority: *priority,
                tag,
                due: known.due,
                item: id,
            };
            known.ready = Some(rank);
            self.ready.insert(rank);
        }
    }

    fn unrank(&mut self, id: ItemId) {
        let Some(known) = self.known.get_mut(&id) else {
            return;
        };
        if let Some(rank) = known.ready.take() {
            self.ready.remove(&rank);
        }
        let limited = known.parked.take().and_then(|key| self.keys.get_mut(&key));
        if let Some(limited) = limited {
            limited.parked.remove(&known.arrival);
        }
    }

    /// `limited.rs`, lines 171 to 190.
    fn start_unblocked(&mut self, now: Time) {
        loop {
            let mut unblocked = Vec::new();
            for limited in self.keys.values_mut() {
                let room = limited.room(now);
                unblocked.extend(limited.parked.values().take(room).copied());
            }
            for item in &unblocked {
                self.rank(*item, now);
            }
            let waits = |item| {
                self.known
                    .get(item)
                    .is_some_and(|known| known.parked.is_some())
            };
            if !unblocked.iter().any(waits) {
                return;
            }
        }
    }

    /// `handing_out.rs`, lines 133 to 155.
    fn first_ready(&mut self) -> Option<Rank> {
        let from = Rank::start_of(self.turns.first());
        let rank = *self.ready.range(from..).chain(&self.ready).next()?;
        let ready = &self.ready;
        self.turns.started(rank, |priority| {
            let first = ready.range(Rank::start_of(priority)..).next();
            first.is_some_and(|rank| rank.priority == priority)
        });
        Some(rank)
    }

    fn stop(&mut self, item: ItemId, now: Time) {
        if let Some(known) = self.known.remove(&item).filter(|known| known.is_running) {
            for key in &known.item.keys {
                if let Some(limited) = self.keys.get_mut(key) {
                    limited.end();
                }
            }
        }
        self.start_unblocked(now);
    }
}

/// The documents of today's algorithm.
#[derive(Debug, Default)]
pub(crate) struct Store {
    documents: BTreeMap<Key, Stored>,
    etags: u64,
}

impl Algorithm for Today {
    type Request = (Key, Request);
    type Reply = (Key, Reply);
    type Store = Store;

    fn new(name: &str) -> Self {
        Self {
            me: name.into(),
            keys: Keys::new(),
            obtaining: Obtaining::default(),
            known: HashMap::new(),
            ready: BTreeSet::new(),
            turns: Turns::default(),
            arrivals: 0,
            next: Vec::new(),
        }
    }

    fn set_rule(&mut self, key: &Key, rule: Rule, now: Time) {
        let limited = self
            .keys
            .entry(key.clone())
            .or_insert_with(|| Limited::new(rule, now));
        limited.set_rule(rule, now);
        self.obtaining.is_wanted = true;
        self.start_unblocked(now);
    }

    fn add(&mut self, item: &Item, is_found: bool, spread: u64, now: Time) {
        self.arrivals += 1;
        let known = Known {
            item: item.clone(),
            // `Work::IS_SCATTERED`: each process takes the items of a poll in an order of its own.
            due: item.born + Duration::from_micros(if is_found { spread % 2_000_000 } else { 0 }),
            arrival: self.arrivals,
            ready: None,
            parked: None,
            is_running: false,
        };
        self.known.insert(item.id, known);
        self.rank(item.id, now);
    }

    fn knows(&self, item: ItemId) -> bool {
        self.known.contains_key(&item)
    }

    fn remove(&mut self, item: ItemId, now: Time) {
        if self.known.get(&item).is_some_and(|known| !known.is_running) {
            self.unrank(item);
            self.known.remove(&item);
            self.start_unblocked(now);
        }
    }

    fn pick(&mut self, now: Time) -> Option<ItemId> {
        loop {
            let item = self.first_ready()?.item;
            if self.blocks(item, now).is_some() {
                self.rank(item, now);
                continue;
            }
            self.unrank(item);
            let known = self.known.get_mut(&item)?;
            known.is_running = true;
            for key in &known.item.keys {
                if let Some(limited) = self.keys.get_mut(key) {
                    limited.start();
                }
            }
            return Some(item);
        }
    }

    fn may_start(&self, _: ItemId, _: Time) -> bool {
        true
    }

    fn not_started(&mut self, item: ItemId, now: Time) {
        self.stop(item, now);
    }

    fn ended(&mut self, item: ItemId, now: Time) {
        self.stop(item, now);
    }

    fn requests(&mut self, _: usize, now: Time) -> Vec<Self::Request> {
        let mut requests = std::mem::take(&mut self.next);
        requests.extend(self.obtaining.round(&self.me, &mut self.keys, now));
        requests
    }

    fn answer(&mut self, (key, reply): Self::Reply, now: Time) {
        let next = self
            .obtaining
            .on(&self.me, &key, reply, &mut self.keys, now);
        self.next.extend(next.map(|request| (key, request)));
        self.start_unblocked(now);
    }

    fn found_ended(&mut self, _: &Ended) {}

    fn locked_until(&self) -> Option<Time> {
        None
    }

    fn wake_at(&self) -> Option<Time> {
        let parked = self
            .keys
            .values()
            .filter(|limited| !limited.parked.is_empty());
        let refilled = parked.filter_map(|limited| limited.refilled_at(limited.counted_at()));
        refilled.chain(self.obtaining.next_round()).min()
    }

    fn tick(&mut self, now: Time) {
        self.start_unblocked(now);
    }

    fn document((key, _): &Self::Request) -> Key {
        key.clone()
    }

    fn is_write((_, request): &Self::Request) -> bool {
        matches!(request, Request::Write(..))
    }

    fn serve(store: &mut Store, (key, request): &Self::Request) -> Self::Reply {
        let reply = match request {
            Request::Read => Reply::Read(store.documents.get(key).cloned()),
            Request::Write(etag, permits) => {
                if store.documents.get(key).map(|(etag, _)| *etag) == *etag {
                    store.etags += 1;
                    store
                        .documents
                        .insert(key.clone(), (store.etags, permits.clone()));
                    if permits.is_empty() {
                        store.documents.remove(key);
                    }
                    Reply::Written(Some(store.etags))
                } else {
                    Reply::Written(None)
                }
            }
        };
        (key.clone(), reply)
    }

    fn lost((key, _): &Self::Request) -> Self::Reply {
        (key.clone(), Reply::Lost)
    }

    fn busy(request: &Self::Request) -> Self::Reply {
        Self::lost(request)
    }

    fn ended_leases(_: &Store, _: Time) -> Vec<Ended> {
        Vec::new()
    }

    fn fault(_: &Store, _: &Key) -> Option<String> {
        None
    }
}
