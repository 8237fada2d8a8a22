//! An instance between two turns of this process.
//!
//! It is as its last commit here left it. Every commit of any runtime replaces the instance document, and history and
//! key-value store change with commits only; so a lock that is won on the cached ETag proves that all of it still holds.
//! Without that lock nothing of it is acted on.

use std::sync::Arc;

use cdb_model::Stored;
use duroxide::Event;
use tokio::time::Instant;

use crate::documents::Instance;
use crate::kv::KvState;

/// What an instance takes beside its events, in bytes; an estimate.
const BASE_BYTES: usize = 2048;

/// The history of the newest execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) events: Arc<Vec<Event>>,
    /// Size of their stored text.
    pub(crate) bytes: usize,
    /// When they were read; nothing when they were never read, but all committed here.
    pub(crate) read_at: Option<Instant>,
}

impl History {
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
pub(crate) struct CachedInstance {
    /// Unlocked, at the version that the last commit gave it.
    pub(crate) instance: Stored<Instance>,
    pub(crate) history: History,
    pub(crate) kv: KvState,
}

impl CachedInstance {
    /// Bytes of memory. Parsed events take about three times their text.
    pub(crate) fn bytes(&self) -> usize {
        BASE_BYTES + 3 * self.history.bytes + self.kv.bytes()
    }
}
