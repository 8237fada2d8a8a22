//! The protocol as an algorithm of the simulation.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::machine::{
    Answer, ItemId, Key, LeaseAnswer, LeaseDocument, LeaseRequest, Line, Message, Origin, Reply,
    Request, Rule, Runtime, RuntimeId, Time, Waiting, acquisition_order,
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
/// order in which the scenario names them; without `LINE`, bound items do not stand in line.
#[derive(Debug)]
pub(crate) struct Protocol<const ORDERED: bool = true, const LINE: bool = true>(Runtime);

impl<const ORDERED: bool, const LINE: bool> Protocol<ORDERED, LINE> {
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
        Self(Runtime::new(name))
    }

    fn set_rule(&mut self, key: &Key, rule: Rule, now: Time) {
        self.0.set_rule(key, rule, now);
    }

    fn add(&mut self, item: &Item, is_found: bool, spread: u64, now: Time) {
        let keys = item.keys.iter().map(|key| (key.clone(), self.0.rule(key)));
        let origin = match (is_found, item.is_bound) {
            (_, true) if LINE => Origin::Bound,
            (true, false) => Origin::Found,
            _ => Origin::Own,
        };
        let waiting = Waiting {
            item: item.id,
            keys: if ORDERED {
                acquisition_order(keys.collect())
            } else {
                item.keys.iter().cloned().collect()
            },
            priority: item.priority,
            share: item.share.clone(),
            due: item.born,
            origin,
            spread,
        };
        self.0.add(&waiting, now);
    }

    fn knows(&self, item: ItemId) -> bool {
        self.0.knows(item)
    }

    fn remove(&mut self, item: ItemId, now: Time) {
        self.0.remove(item, now);
    }

    fn pick(&mut self, now: Time) -> Option<ItemId> {
        self.0.pick(now)
    }

    fn may_start(&self, item: ItemId, now: Time) -> bool {
        self.0.may_start(item, now)
    }

    fn not_started(&mut self, item: ItemId, now: Time) {
        self.0.not_started(item, now);
    }

    fn ended(&mut self, item: ItemId, now: Time) {
        self.0.ended(item, now);
    }

    fn requests(&mut self, room: usize, now: Time) -> Vec<Self::Request> {
        let messages = self.0.messages(room, now);
        let by = self.0.id();
        messages
            .into_iter()
            .map(|is| Named { by: by.clone(), is })
            .collect()
    }

    fn answer(&mut self, reply: Self::Reply, now: Time) {
        if reply.by == *self.0.id() {
            self.0.on(reply.is, now);
        }
    }

    fn found_ended(&mut self, ended: &Ended) {
        self.0.found_ended(&ended.id, ended.until, ended.is_dead);
    }

    fn locked_until(&self) -> Option<Time> {
        self.0.locked_until()
    }

    fn wake_at(&self) -> Option<Time> {
        self.0.wake_at()
    }

    fn tick(&mut self, now: Time) {
        self.0.tick(now);
    }

    fn document(request: &Self::Request) -> Key {
        match &request.is {
            Message::Line(key, _) => key.clone(),
            Message::Lease(LeaseRequest::Renew(id, _) | LeaseRequest::Fence(id, _)) => {
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
                let answer = store.serve_line(key, line_request);
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
        let (LeaseRequest::Renew(id, _) | LeaseRequest::Fence(id, _)) = request;
        match LeaseDocument::apply(self.leases.get(id), request) {
            Some(after) => {
                self.leases.insert(id.clone(), after);
                LeaseAnswer::Written
            }
            None => LeaseAnswer::Refused,
        }
    }
}
