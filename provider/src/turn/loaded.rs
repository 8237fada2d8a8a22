//! What the next turn of an instance needs: read from the store, or known of its last turn here.

use std::collections::BTreeSet;
use std::sync::Arc;

use cdb_coordination::lease::Lockable as _;
use cdb_model::{Stored, Timestamp};
use duroxide::Event;
use tokio::time::Instant;

use crate::queue::instances::{
    Attempt, CachedInstance, Content, History, Left, Message, Parent, Presence,
};
use crate::stored::documents::{HistorySegment, Instance};
use crate::stored::history::{self, Segments};
use crate::stored::kv::KvState;

/// The documents of a partition that the next turn needs.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) instance_id: String,
    pub(crate) instance: Option<Stored<Instance>>,
    /// The parent of an instance that an operator creates before its first turn.
    pub(super) parent: Option<String>,
    /// The due messages of one turn, oldest first.
    pub(crate) messages: Vec<Message>,
    /// The other due messages that were found, oldest first.
    pub(super) others: Vec<Message>,
    /// Whether there may be more due messages.
    pub(super) has_more_messages: bool,
    /// The due messages that the turn does not take.
    pub(super) left: Left,
    /// The queues whose events have no room in the execution.
    pub(super) full: BTreeSet<String>,
    /// The time at which they are due.
    pub(super) due_at: Timestamp,
    /// The newest due time of the messages, with those that do not fit into the turn.
    pub(super) newest: Timestamp,
    /// The key-value documents found; once the load is complete, the effective state.
    pub(crate) kv: KvState,
    pub(super) history: LoadedHistory,
    /// The reason why a document of the instance, other than its history, cannot be decoded.
    pub(super) damage: Option<String>,
}

#[derive(Debug)]
pub(super) enum LoadedHistory {
    /// Read from the partition, perhaps incomplete or of another execution.
    Read {
        execution_id: u64,
        segments: Segments,
        at: Instant,
    },
    /// Read, but incomplete or undecodable.
    Damaged(String),
    /// Cached from the commits of this process. Current if the lock is won on the cached version.
    Cached(History),
}

impl Loaded {
    /// Returns the instance as this process expects it; `None` when it knows too little.
    pub(super) fn expected(instance_id: &str, known: &Attempt) -> Option<Self> {
        if known.search || known.messages.is_empty() {
            return None;
        }
        let messages = known.messages.clone();
        // A cached instance may itself be the earlier one.
        let cached = known.cached.as_ref();
        let instance = cached.map(|cached| &cached.instance.document);
        let mut all = messages.iter().chain(&known.others);
        if all.any(|message| message.is_of_earlier_life(instance)) {
            return None;
        }
        let expected = match &known.cached {
            // Another runtime may have begun the next execution.
            Some(cached) => Self::cached(cached, messages),
            // Earlier events may be in the store only: a poll looks for new messages, and a client of
            // this process knows its own.
            None if messages.iter().any(|message| message.queue().is_some()) => return None,
            None if starts(&messages) && known.presence == Presence::Unknown => {
                Self::new_instance(instance_id, messages)
            }
            None => return None,
        };
        let others = known.others.clone();
        Some(Self { others, ..expected }).filter(Self::has_context)
    }

    /// Combines a cached instance with its pending messages.
    fn cached(cached: &CachedInstance, messages: Vec<Message>) -> Self {
        let instance = &cached.instance;
        Self {
            instance: Some(instance.clone()),
            kv: cached.kv.clone(),
            history: LoadedHistory::Cached(cached.history.clone()),
            ..Self::new_instance(&instance.document.instance_id, messages)
        }
    }

    /// Returns an instance that does not exist yet, with the messages that start it.
    pub(super) fn new_instance(instance_id: &str, messages: Vec<Message>) -> Self {
        Self {
            instance_id: instance_id.to_owned(),
            instance: None,
            parent: None,
            messages,
            others: Vec::new(),
            has_more_messages: false,
            left: Left::AsKnown,
            full: BTreeSet::new(),
            due_at: Timestamp::default(),
            newest: Timestamp::default(),
            kv: KvState::default(),
            history: LoadedHistory::Cached(History::default()),
            damage: None,
        }
    }

    /// Returns whether the orchestration of the messages is known. Between two executions it is
    /// that of the message that starts the next one: duroxide would abandon all others with a delay,
    /// which counts as an attempt and changes their order (0.1.32, `process_orchestration_item`).
    pub(crate) fn has_context(&self) -> bool {
        if self.is_damaged() {
            return true;
        }
        match self.instance.as_ref().map(|stored| &stored.document) {
            Some(instance) if !instance.awaits_start() => true,
            Some(instance) if instance.is_created() => {
                let mut messages = self.messages.iter();
                // An unreadable message fails the instance with the reason.
                messages.any(|message| message.continues_as_new() || !message.is_readable())
            }
            _ => self.has_history() || starts(&self.messages),
        }
    }

    /// Returns whether the instance, its history or its key-value store cannot be decoded.
    pub(crate) fn is_damaged(&self) -> bool {
        let history = match &self.history {
            LoadedHistory::Read { segments, .. } => segments.damage.is_some(),
            LoadedHistory::Damaged(_) => true,
            LoadedHistory::Cached(_) => false,
        };
        history || self.damage.is_some()
    }

    /// Returns the due messages that were found, also those that do not fit into the turn.
    pub(super) fn found_messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().chain(&self.others)
    }

    /// Returns what belongs to another instance of this id: cancellations whose senders are not its parent,
    /// and the ends of children of an earlier instance. A start proves that no later instance has begun.
    pub(super) fn of_another_instance(&self) -> Vec<Message> {
        let instance = self.instance.as_ref().map(|stored| &stored.document);
        if self.is_damaged() {
            return Vec::new();
        }
        let parent = Parent::of(instance, &self.messages);
        let is_known = instance.is_some_and(Instance::is_created)
            || self.found_messages().any(Message::is_start);
        let others = self.found_messages().filter(|message| {
            message.is_of_another_parent(parent)
                || (is_known && message.is_of_earlier_life(instance))
        });
        others.cloned().collect()
    }

    /// Returns until when the messages are reserved for this process; `None` if one of them is not,
    /// or must be read first.
    pub(super) fn reserved_until(&self) -> Option<Timestamp> {
        let ends = self.messages.iter().map(|message| {
            let is_whole = matches!(message.content, Content::Whole(_));
            let document = &message.stored.document;
            document.reserved_until().filter(|_| is_whole)
        });
        ends.min()?
    }

    /// Returns whether a runtime has locked the instance.
    pub(super) fn is_locked(&self, now: Timestamp) -> bool {
        let instance = self.instance.as_ref();
        instance.is_some_and(|stored| !stored.document.is_lockable(now))
    }

    /// Returns the instance if it is paused.
    pub(super) fn paused(&self) -> Option<&Stored<Instance>> {
        let instance = self.instance.as_ref();
        instance.filter(|stored| stored.document.paused.is_some())
    }

    /// Returns whether the code of a runtime could not execute the next turn.
    pub(super) fn is_for_other_code(&self) -> bool {
        let instance = self.instance.as_ref();
        instance.is_some_and(|stored| stored.document.held.is_some())
    }

    /// Returns whether the orchestration has ended, so that no turn follows.
    pub(super) fn is_over(&self) -> bool {
        let instance = self.instance.as_ref();
        instance.is_some_and(|stored| !stored.document.has_more())
    }

    /// Returns the readable events of a damaged history.
    pub(super) fn readable_events(&self) -> Vec<Event> {
        let LoadedHistory::Read { segments, .. } = &self.history else {
            return Vec::new();
        };
        let texts = segments.documents.iter();
        let texts = texts.map(|segment| segment.event_data.header());
        texts
            .filter_map(|text| HistorySegment::unpack(text).ok())
            .flatten()
            .collect()
    }

    /// Returns the newest due time of the messages, with those that do not fit into the turn: all of
    /// them wait for the same.
    pub(crate) fn newest_due(&self) -> Timestamp {
        let times = self.messages.iter();
        let times = times.map(|message| message.stored.document.visible_at);
        times.max().unwrap_or_default().max(self.newest)
    }

    pub(super) fn current_execution(&self) -> u64 {
        self.instance
            .as_ref()
            .map_or(1, |stored| stored.document.current_execution_id)
    }

    /// Returns the number of history documents found.
    pub(crate) fn history_documents(&self) -> u64 {
        match &self.history {
            LoadedHistory::Read { segments, .. } => segments.documents.len() as u64,
            LoadedHistory::Cached(_) | LoadedHistory::Damaged(_) => 0,
        }
    }

    fn has_history(&self) -> bool {
        match &self.history {
            LoadedHistory::Read { segments, .. } => !segments.documents.is_empty(),
            LoadedHistory::Cached(history) => !history.events.is_empty(),
            LoadedHistory::Damaged(_) => true,
        }
    }

    pub(super) fn lacks_history(&self) -> bool {
        let committed = self
            .instance
            .as_ref()
            .and_then(|stored| stored.document.history_documents);
        !self.is_damaged()
            && matches!(self.history, LoadedHistory::Read { .. })
            && committed.is_some_and(|committed| self.history_documents() < committed)
    }

    /// Returns the history, once the lock is won.
    pub(super) fn history(&self) -> Result<History, String> {
        if let Some(reason) = &self.damage {
            return Err(reason.clone());
        }
        let (execution_id, segments, read_at) = match &self.history {
            LoadedHistory::Cached(history) => return Ok(history.clone()),
            LoadedHistory::Damaged(reason) => return Err(reason.clone()),
            LoadedHistory::Read {
                execution_id,
                segments,
                at,
            } => (execution_id, segments, *at),
        };
        if let Some(reason) = &segments.damage {
            return Err(reason.clone());
        }
        let segments = &segments.documents;
        if self.lacks_history() {
            return Err(format!(
                "execution {execution_id} has only {} of its history documents",
                segments.len()
            ));
        }
        decode(*execution_id, segments, read_at)
    }
}

/// Decodes a complete history.
fn decode(
    execution_id: u64,
    segments: &[HistorySegment],
    read_at: Instant,
) -> Result<History, String> {
    let mut events = Vec::new();
    for segment in segments {
        let unpacked = HistorySegment::unpack(segment.event_data.header());
        events.extend(unpacked.map_err(|error| error.to_string())?);
    }
    history::check(segments, &events).map_err(|reason| {
        format!("the history of execution {execution_id} is damaged: {reason}")
    })?;
    let bytes = segments.iter().map(|segment| segment.event_data.bytes());
    Ok(History {
        events: Arc::new(events),
        bytes: bytes.sum(),
        read_at: Some(read_at),
    })
}

/// Returns whether these messages start an orchestration.
fn starts(messages: &[Message]) -> bool {
    messages.iter().any(Message::is_start)
}
