//! What this process remembers of the instances that it worked on, so that their next turn needs no load.
//!
//! A remembered instance is as its last commit here left it. Every commit, by whomever, replaces the instance document,
//! and history and key-value store change with commits only; so a lock that is won on the remembered ETag proves that
//! all of it still holds. Without that lock nothing of it is acted on.

use std::collections::hash_map::RandomState;
use std::sync::Arc;

use cdb_model::Stored;
use duroxide::Event;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use tokio::time::Instant;

use crate::documents::Instance;
use crate::kv::KvState;

/// What an instance takes beside its events, in bytes; an estimate.
const BASE_BYTES: usize = 2048;

/// The size of a usual instance, from which the number of places is estimated.
const USUAL_BYTES: u64 = 8 * 1024;

/// The history of the newest execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    pub(crate) events: Arc<Vec<Event>>,
    /// Size of their stored text.
    pub(crate) bytes: usize,
    /// When they were read; nothing when they were never read, but all committed here.
    pub(crate) read_at: Option<Instant>,
}

impl Past {
    /// With what a turn has added. Copies nothing when nobody else holds the events.
    pub(crate) fn extended(self, added: &[Event], bytes: usize) -> Self {
        let mut events = Arc::unwrap_or_clone(self.events);
        events.extend_from_slice(added);
        Self {
            events: Arc::new(events),
            bytes: self.bytes + bytes,
            read_at: self.read_at,
        }
    }
}

/// An instance between two turns.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    /// Unlocked, at the version that the last commit gave it.
    pub(crate) instance: Stored<Instance>,
    pub(crate) past: Past,
    pub(crate) kv: KvState,
}

#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<String, Arc<Remembered>> for Bytes {
    fn weight(&self, key: &String, remembered: &Arc<Remembered>) -> u64 {
        // Parsed events take about three times their text.
        let bytes = BASE_BYTES + key.len() + 3 * remembered.past.bytes + remembered.kv.bytes();
        bytes as u64
    }
}

/// The instances remembered, the least used of them forgotten first.
#[derive(Debug)]
pub(crate) struct Memory {
    instances: Cache<String, Arc<Remembered>, Bytes, RandomState>,
}

impl Memory {
    /// Room for about so many bytes; zero remembers nothing.
    pub(crate) fn new(bytes: u64) -> Self {
        let places = usize::try_from(bytes / USUAL_BYTES).unwrap_or(usize::MAX);
        let instances = Cache::with(
            places.max(1),
            bytes,
            Bytes,
            RandomState::default(),
            DefaultLifecycle::default(),
        );
        Self { instances }
    }

    pub(crate) fn get(&self, instance_id: &str) -> Option<Arc<Remembered>> {
        self.instances.get(instance_id)
    }

    pub(crate) fn put(&self, remembered: Remembered) {
        let instance_id = remembered.instance.document.instance_id.clone();
        self.instances.insert(instance_id, Arc::new(remembered));
    }

    /// Its next version is not known here, or no longer wanted.
    pub(crate) fn forget(&self, instance_id: &str) {
        self.instances.remove(instance_id);
    }
}
