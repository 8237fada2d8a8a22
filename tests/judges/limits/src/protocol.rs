//! The protocol as an algorithm of the simulation.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::machine::{
    Answer, Field, ItemId, Key, LeaseAnswer, LeaseDocument, LeaseRequest, Line, Message, Operation,
    Origin, Reply, Request, Rule, Runtime, RuntimeId, Time, Turns, Waiting, acquisition_order,
};
use crate::world::{Algorithm, Ended, Item};

/// The documents of the protocol.
#[derive(Debug, Default)]
pub(crate) struct Store {
    lines: BTreeMap<Key, Arc<Line>>,
    leases: BTreeMap<RuntimeId, LeaseDocument>,
}

/// A request with the name of the runtime, so that answers for a former name are ignored.
#[derive(Clone, Debug)]
pub(crate) struct Named<T> {
    by: RuntimeId,
    is: T,
}

/// The protocol in one process. Mutants, to show what a part is for: without `ORDERED`, items acquire their keys in the
/// order in which the scenario names them; without `LINE`, no runtime gets a permit by standing in line.
#[derive(Debug)]
pub(crate) struct Protocol<const ORDERED: bool = true, const LINE: bool = true> {
    runtime: Runtime,
    turns: Turns,
    rules: BTreeMap<Key, Rule>,
    items: HashMap<ItemId, Waiting>,
}

impl<const ORDERED: bool, const LINE: bool> Protocol<ORDERED, LINE> {
    fn rule(&self, key: &Key) -> Rule {
        self.rules.get(key).copied().unwrap_or_default()
    }

    fn rules(&self, keys: &[Key]) -> Vec<Rule> {
        keys.iter().map(|key| self.rule(key)).collect()
    }

    fn sorted(&self, keys: &[Key]) -> Arc<[Key]> {
        if ORDERED {
            acquisition_order(
                keys.iter()
                    .map(|key| (key.clone(), self.rule(key)))
                    .collect(),
            )
        } else {
            keys.into()
        }
    }

    fn reply(request: &Named<Message>, answer: Answer, lease: LeaseAnswer) -> Named<Reply> {
        let is = match &request.is {
            Message::Line(key, _) => Reply::Line(key.clone(), answer),
            Message::Lease(lease_request) => Reply::Lease(lease_request.clone(), lease),
        };
        Named {
            by: request.by.clone(),
            is,
        }
    }
}

impl<const ORDERED: bool, const LINE: bool> Algorithm for Protocol<ORDERED, LINE> {
    type Request = Named<Message>;
    type Reply = Named<Reply>;
    type Store = Store;

    fn new(name: &str) -> Self {
        Self {
            runtime: Runtime::new(name),
            turns: Turns::default(),
            rules: BTreeMap::new(),
            items: HashMap::new(),
        }
    }

    fn set_rule(&mut self, key: &Key, rule: Rule, now: Time) {
        self.rules.insert(key.clone(), rule);
        let waits = |item: &&ItemId| self.runtime.is_waiting(**item);
        let is_waiting: BTreeSet<_> = self.items.keys().filter(waits).copied().collect();
        let rules = &self.rules;
        let rule_of = |key: &Key| rules.get(key).copied().unwrap_or_default();
        self.runtime.set_rules(true, &rule_of, now);
        let mut items: Vec<_> = self.items.values().cloned().collect();
        items.sort_by_key(|waiting| waiting.item);
        for mut waiting in items {
            waiting.keys = self.sorted(&waiting.keys);
            let rules = self.rules(&waiting.keys);
            if is_waiting.contains(&waiting.item) {
                self.runtime.add(&waiting, &rules);
            } else {
                self.runtime.start(waiting.item, &waiting.keys, &rules, now);
            }
            self.items.insert(waiting.item, waiting);
        }
    }

    fn add(&mut self, item: &Item, is_found: bool, spread: u64, _: Time) {
        let origin = if is_found { Origin::Found } else { Origin::Own };
        let waiting = Waiting {
            item: item.id,
            keys: self.sorted(&item.keys),
            priority: item.priority,
            tag: item
                .share
                .as_ref()
                .map_or(0, |share| self.turns.tag(share, item.priority)),
            due: item.born,
            origin,
            spread,
        };
        if self.items.insert(item.id, waiting.clone()).is_none() {
            self.runtime.add(&waiting, &self.rules(&waiting.keys));
        }
    }

    fn knows(&self, item: ItemId) -> bool {
        self.items.contains_key(&item)
    }

    fn remove(&mut self, item: ItemId, now: Time) {
        if self.runtime.is_waiting(item) {
            self.items.remove(&item);
            self.runtime.remove(item, now);
        }
    }

    fn pick(&mut self, now: Time) -> Option<ItemId> {
        let first = self.runtime.first_of_each(&mut |_| true, now);
        let mut next = first.range(self.turns.first()..).chain(&first);
        let (priority, rank) = next.next()?;
        let keys = self.items.get(&rank.item)?.keys.clone();
        self.runtime
            .start(rank.item, &keys, &self.rules(&keys), now);
        self.turns.reached(*priority, rank.tag);
        self.turns
            .took_turn(*priority, |lower| first.contains_key(&lower));
        Some(rank.item)
    }

    fn may_start(&self, item: ItemId, now: Time) -> bool {
        self.runtime.may_begin(item, now)
    }

    fn not_started(&mut self, item: ItemId, now: Time) {
        self.items.remove(&item);
        self.runtime.not_begun(item, now);
    }

    fn ended(&mut self, item: ItemId, now: Time) {
        self.items.remove(&item);
        self.runtime.ended(item, now);
    }

    fn requests(&mut self, room: usize, now: Time) -> Vec<Self::Request> {
        let messages = self.runtime.messages(room, now);
        let by = self.runtime.id();
        messages
            .into_iter()
            .map(|is| Named { by: by.clone(), is })
            .collect()
    }

    fn answer(&mut self, reply: Self::Reply, now: Time) {
        if reply.by == *self.runtime.id() {
            self.runtime.on(reply.is, now);
        }
    }

    fn found_ended(&mut self, ended: &Ended) {
        self.runtime
            .found_ended(&ended.id, ended.until, ended.is_dead);
    }

    fn locked_until(&self) -> Option<Time> {
        (!self.rules.is_empty()).then(|| self.runtime.locked_until())
    }

    fn wake_at(&self) -> Option<Time> {
        self.runtime.wake_at()
    }

    fn tick(&mut self, now: Time) {
        self.runtime.tick(now);
    }

    fn document(request: &Self::Request) -> Key {
        match &request.is {
            Message::Line(key, _) => key.clone(),
            Message::Lease(LeaseRequest::Renew { id, .. } | LeaseRequest::Fence(id, _)) => {
                format!("lease {id}").into()
            }
        }
    }

    fn is_write(request: &Self::Request) -> bool {
        !matches!(request.is, Message::Line(_, Request::Read))
    }

    fn serve(store: &mut Store, request: &Self::Request) -> Self::Reply {
        match &request.is {
            Message::Line(key, line_request) => {
                let answer = if LINE || !gives(line_request) {
                    store.serve_line(key, line_request)
                } else {
                    Answer::Refused
                };
                Self::reply(request, answer, LeaseAnswer::Lost)
            }
            Message::Lease(lease_request) => {
                let answer = store.serve_lease(lease_request);
                Self::reply(request, Answer::Lost, answer)
            }
        }
    }

    fn lost(request: &Self::Request) -> Self::Reply {
        Self::reply(request, Answer::Lost, LeaseAnswer::Lost)
    }

    fn busy(request: &Self::Request) -> Self::Reply {
        Self::reply(request, Answer::Busy, LeaseAnswer::Lost)
    }

    fn ended_leases(store: &Store, now: Time) -> Vec<Ended> {
        let ended = store
            .leases
            .iter()
            .filter(|(_, lease)| lease.has_ended(now));
        let ended = ended.map(|(id, lease)| Ended {
            id: id.clone(),
            until: lease.until,
            is_dead: lease.is_dead,
        });
        ended.collect()
    }

    fn fault(store: &Store, document: &Key) -> Option<String> {
        let line = store.lines.get(document)?;
        let counted = line.free + line.held();
        (counted != line.cap).then(|| {
            format!(
                "{document}: free and held permits are {counted} of {}",
                line.cap
            )
        })
    }
}

/// Returns whether a request gives a permit to a runtime that stands in line.
fn gives(request: &Request) -> bool {
    let Request::Patch(patch) = request else {
        return false;
    };
    let mut operations = patch.operations.iter();
    operations.any(|operation| matches!(operation, Operation::Add(Field::Wants(_), _)))
}

impl Store {
    fn serve_line(&mut self, key: &Key, request: &Request) -> Answer {
        let before = self.lines.get(key);
        let after = match (request, before) {
            (Request::Create(_), Some(_)) => return Answer::Refused,
            (Request::Create(line), None) => Arc::new(line.clone()),
            (_, None) => return Answer::Missing,
            (Request::Read, Some(line)) => return Answer::Line(line.clone()),
            (Request::Patch(patch), Some(line)) => match line.apply(patch) {
                Ok(after) => Arc::new(after),
                Err(_) => return Answer::Refused,
            },
        };
        self.lines.insert(key.clone(), after.clone());
        Answer::Line(after)
    }

    fn serve_lease(&mut self, request: &LeaseRequest) -> LeaseAnswer {
        let (LeaseRequest::Renew { id, .. } | LeaseRequest::Fence(id, _)) = request;
        match LeaseDocument::apply(self.leases.get(id), request) {
            Some(after) => {
                self.leases.insert(id.clone(), after);
                LeaseAnswer::Written
            }
            None => LeaseAnswer::Refused,
        }
    }
}
