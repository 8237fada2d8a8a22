//! A turn of an instance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cdb_coordination::lease::Lockable;
use cdb_model::value::ItemId;
use cdb_model::{ETag, Stored, Timestamp};
use duroxide::Event;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cache::History;
use super::message::Message;
use super::turn_result::RejectedCommit;
use crate::queue::local_queue::Caller;
use crate::stored::documents::Instance;
use crate::stored::kv::KvState;

/// The due messages that a turn does not take.
#[derive(Debug)]
pub(crate) enum Left {
    /// The others that this process knows.
    AsKnown,
    /// Those that a load has found, oldest first.
    Found {
        messages: Vec<Message>,
        /// The time until which these are all; `None` if there may be others.
        complete_until: Option<Timestamp>,
        /// When the load was sent.
        at: Instant,
    },
}

impl Left {
    /// Returns whether a load has found some, or did not read all.
    pub(crate) fn has_some(&self) -> bool {
        match self {
            Self::AsKnown => false,
            Self::Found {
                messages,
                complete_until,
                ..
            } => complete_until.is_none() || !messages.is_empty(),
        }
    }
}

/// The state of an instance that this process alone may change.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) token: String,
    pub(crate) instance: TurnInstance,
    /// Until when other runtimes do not look at its messages, while the lock is not stored.
    pub(crate) reserved_until: Option<Timestamp>,
    pub(crate) messages: Vec<Message>,
    /// The due messages that the turn does not take.
    pub(crate) left: Left,
    /// The duration of the lock each time it is taken or renewed.
    pub(crate) lock_time: Duration,
    /// The attempt counts without this lock's attempt, once a commit has renewed the lock.
    pub(crate) uncounted: Option<BTreeMap<String, u32>>,
    pub(crate) kv: KvState,
    /// The history of the newest execution, or the reason why it cannot be decoded.
    pub(crate) history: Result<History, String>,
    /// Whether a long poll fetched the turn, as a runtime does.
    pub(crate) caller: Caller,
    /// Cancelled when the commit waits for a message that is being stored, and goes on without its dispatcher.
    pub(crate) waits: CancellationToken,
    /// The rejected commit of this turn; the runtime fails the orchestration next.
    pub(crate) rejected: Option<RejectedCommit>,
    /// Committed, abandoned or lost. A second call with the same token waits for the first one and
    /// fails.
    pub(crate) ended: bool,
}

impl Turn {
    /// Returns the events of the history; `None` when it cannot be decoded.
    pub(crate) fn events(&self) -> Option<Arc<Vec<Event>>> {
        let history = self.history.as_ref().ok();
        history.map(|history| history.events.clone())
    }

    /// Returns the creation of the instance's parent, if it is known: before the first commit from the
    /// start.
    pub(crate) fn parent_created_at(&self) -> Option<Timestamp> {
        let instance = &self.instance.document;
        if instance.is_created() {
            return instance.parent_created_at;
        }
        let mut starts = self.messages.iter().filter(|message| message.is_start());
        starts.find_map(|start| start.stored.document.parent_created_at)
    }

    /// Notes that the instance cannot be decoded. The commit that fails it still notifies its
    /// parent.
    pub(crate) fn damage(&mut self, reason: String) {
        if let Ok(history) = &self.history {
            self.rejected = RejectedCommit::of_damaged(&history.events, &self.messages);
        }
        self.history = Err(reason);
    }

    /// Returns whether neither the instance nor its start is stored.
    pub(crate) fn begins_unstored(&mut self) -> bool {
        self.messages.iter_mut().for_each(Message::settle);
        let mut starts = self.messages.iter().filter(|message| message.is_start());
        self.instance.version.is_none() && starts.any(|start| !start.is_stored())
    }

    /// Leaves the messages that are not stored to their acknowledgements.
    pub(super) fn give_up_unstored(&mut self) {
        self.messages.retain(Message::is_stored);
    }

    /// Returns whether the lock holds at `now`.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        !self.ended && !self.instance.document.is_lockable(now)
    }

    /// Returns whether the store has the lock.
    pub(crate) fn is_locked(&self) -> bool {
        self.reserved_until.is_none()
    }

    /// Returns whether the lock expires within `time` of `now`.
    pub(crate) fn lasts_less_than(&self, now: Timestamp, time: Duration) -> bool {
        self.instance.document.is_lockable(now + time)
    }

    /// Returns the highest attempt count among the messages. A message that arrived after the lock
    /// counts once.
    pub(crate) fn attempt_count(&self) -> u32 {
        let attempts = &self.instance.document.attempts;
        let count = |message: &Message| attempts.get(message.id().as_str()).copied().unwrap_or(1);
        self.messages.iter().map(count).max().unwrap_or(1)
    }

    /// Notes the version that a write of this process gave the instance.
    pub(crate) fn advance(&mut self, instance: Instance, etag: ETag) {
        self.instance.document = instance;
        self.instance.version = Some(etag);
    }
}

/// The instance of a turn.
#[derive(Debug)]
pub(crate) struct TurnInstance {
    pub(crate) id: ItemId,
    /// The document with the lock of the turn, whether the lock is stored or not.
    pub(crate) document: Instance,
    /// The version that the commit replaces; `None` for an instance that the commit creates.
    pub(crate) version: Option<ETag>,
}

impl TurnInstance {
    /// Returns the document at its version; `None` if it does not exist.
    pub(crate) fn stored(&self) -> Option<Stored<Instance>> {
        Some(Stored {
            id: self.id.clone(),
            etag: self.version.clone()?,
            timestamp: self.document.updated_at,
            document: self.document.clone(),
        })
    }
}
