//! An attempt at an instance: what this process knows of it, before it holds the lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_model::{ETag, Timestamp};

use super::cache::CachedInstance;
use super::message::Message;
use crate::timing::{LOCKED_BACKOFF, MAX_LOCKED_BACKOFF};

/// The known state that a dispatcher uses to try an instance.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The cached instance.
    pub(crate) cached: Option<Arc<CachedInstance>>,
    /// The due messages of one turn, in order.
    pub(crate) messages: Vec<Message>,
    /// The other due messages that the turn may take, in order.
    pub(crate) others: Vec<Message>,
    /// Whether the partition must be searched for messages.
    pub(crate) search: bool,
    /// The time since which messages may have come that are not known: no poll looks for the events of
    /// a full execution.
    pub(crate) unread_since: Option<Timestamp>,
    pub(crate) execution: Option<u64>,
    pub(crate) presence: Presence,
    /// Whether other runtimes know all of it too.
    pub(crate) is_polled: bool,
    /// Whether the code of this process could not execute the last turn.
    pub(crate) is_for_other_code: bool,
    pub(super) at: Instant,
    pub(super) searches: u64,
}

/// The messages that have come to an instance since a time.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// The version of the instance that the same read has found.
    pub(crate) version: ETag,
    /// Those that are due.
    pub(crate) messages: Vec<Message>,
    /// The time of the read.
    pub(crate) until: Timestamp,
}

/// What is known of the document of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Presence {
    #[default]
    Unknown,
    /// The instance exists, although a start message for it was seen.
    Exists,
    /// The instance exists, and another runtime had locked it when it was read last. This process
    /// waits for a backoff before it reads it again.
    Locked { backoff: Duration },
}

impl Presence {
    /// Returns the backoff before a locked instance is read again. It doubles each time.
    pub(crate) fn next_backoff(self) -> Duration {
        match self {
            Self::Locked { backoff } => (backoff * 2).min(MAX_LOCKED_BACKOFF),
            Self::Unknown | Self::Exists => LOCKED_BACKOFF,
        }
    }
}
