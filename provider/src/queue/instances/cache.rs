//! The cache of an instance between two turns of this process.
//!
//! The cache holds the state after the last commit of this process. Every commit of any runtime
//! replaces the instance document, and only commits change history and key-value store. So a lock
//! that is won on the cached ETag proves the cached state current. Without the lock it is not used.

use std::sync::Arc;

use cdb_model::Stored;
use duroxide::{Event, EventKind};
use tokio::time::Instant;

use crate::stored::documents::Instance;
use crate::stored::kv::KvState;

/// The estimated size of an instance without its events, in bytes.
const BASE_BYTES: usize = 2048;

/// The history of the newest execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) events: Arc<Vec<Event>>,
    /// The size of the events' stored text.
    pub(crate) bytes: usize,
    /// The time when the events were read; `None` when this process committed all of them.
    pub(crate) read_at: Option<Instant>,
}

impl History {
    /// Appends the events of a turn. Copies nothing when the events are not shared.
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

/// Returns the orchestration of a history.
pub(super) fn started_orchestration(events: &[Event]) -> Option<&str> {
    match &events.first()?.kind {
        EventKind::OrchestrationStarted { name, .. } => Some(name),
        _ => None,
    }
}

/// A cached instance between two turns.
#[derive(Clone, Debug)]
pub(crate) struct CachedInstance {
    /// The unlocked instance, at the version of the last commit.
    pub(crate) instance: Stored<Instance>,
    pub(crate) history: History,
    pub(crate) kv: KvState,
}

impl CachedInstance {
    /// Returns the orchestration of an instance that can go on.
    pub(super) fn open_orchestration(&self) -> Option<&str> {
        let instance = &self.instance.document;
        let is_open = instance.has_more() && instance.paused.is_none() && instance.held.is_none();
        is_open.then_some(&*instance.orchestration_name)
    }

    /// Returns the bytes of memory. Parsed events take about three times their text.
    pub(crate) fn bytes(&self) -> usize {
        BASE_BYTES + 3 * self.history.bytes + self.kv.bytes()
    }
}
