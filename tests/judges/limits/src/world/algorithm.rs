//! What an algorithm for limits does for one process, and how the service treats its documents.

use crate::machine::{ItemId, Key, Rule, RuntimeId, Time};

use super::scenario::Item;

/// A lease that has ended, as a poll finds it.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) id: RuntimeId,
    pub(crate) until: Time,
    pub(crate) is_dead: bool,
}

/// An algorithm for limits, in one process.
pub(crate) trait Algorithm: Sized {
    type Request: Clone;
    type Reply: Clone;
    /// The documents of all processes.
    type Store: Default;

    fn new(name: &str) -> Self;
    fn set_rule(&mut self, key: &Key, rule: Rule, now: Time);
    /// Adds an item that waits. `spread` is a random number.
    fn add(&mut self, item: &Item, is_found: bool, spread: u64, now: Time);
    fn knows(&self, item: ItemId) -> bool;
    /// Removes an item that another process has.
    fn remove(&mut self, item: ItemId, now: Time);
    /// Returns an item to start, whose permits are counted from now on.
    fn pick(&mut self, now: Time) -> Option<ItemId>;
    /// Returns whether a picked item may start, after its lock was stored.
    fn may_start(&self, item: ItemId, now: Time) -> bool;
    fn not_started(&mut self, item: ItemId, now: Time);
    fn ended(&mut self, item: ItemId, now: Time);
    /// Returns the requests that are due, with `room` for more items.
    fn requests(&mut self, room: usize, now: Time) -> Vec<Self::Request>;
    fn answer(&mut self, reply: Self::Reply, now: Time);
    fn found_ended(&mut self, ended: &Ended);
    /// Returns the end beyond which no lock of an item is renewed.
    fn locked_until(&self) -> Option<Time>;
    fn wake_at(&self) -> Option<Time>;
    fn tick(&mut self, now: Time);

    /// Returns the document of a request. Writes of one document follow each other.
    fn document(request: &Self::Request) -> Key;
    fn is_write(request: &Self::Request) -> bool;
    fn serve(store: &mut Self::Store, request: &Self::Request) -> Self::Reply;
    /// Returns the reply to a request without an answer.
    fn lost(request: &Self::Request) -> Self::Reply;
    /// Returns the reply to a request that the service refuses to serve now.
    fn busy(request: &Self::Request) -> Self::Reply;
    /// Returns what a query of due documents finds besides items.
    fn ended_leases(store: &Self::Store, now: Time) -> Vec<Ended>;
    /// Returns what is wrong with a document after a request.
    fn fault(store: &Self::Store, document: &Key) -> Option<String>;
}
