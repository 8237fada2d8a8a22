//! A queued message that this process knows.

use std::collections::HashMap;

use cdb_model::value::ItemId;
use cdb_model::{Document, DocumentKey, ETag, Stored, Timestamp};
use duroxide::providers::WorkItem;
use tokio::time::Instant;

use crate::queue::hand_over::Ticket;
use crate::queue::overhead::ITEM_OVERHEAD;
use crate::stored::documents::{Instance, OrchestratorItem, Text};

/// The most messages of one turn. The commit deletes each of them, and holds at most 100
/// operations.
pub(crate) const MAX_MESSAGES: usize = 64;

/// The most bytes of messages in one turn, unless a single message is larger.
const MAX_TURN_BYTES: usize = 32 * 1024 * 1024;

/// A queued message with its version.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) stored: Stored<OrchestratorItem>,
    pub(crate) content: Content,
    /// A time at which the message was certainly queued.
    pub(crate) seen_at: Instant,
    /// The ticket of a message that is not stored. Its version is then empty.
    pub(crate) ticket: Option<Ticket>,
}

/// The kinds of messages that may let an instance continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// Starts an execution.
    Start,
    Cancellation,
    /// A queued event.
    Event,
    Other,
}

/// The decoded content of a message.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The whole message.
    Whole(WorkItem),
    /// The header of a message whose text is in chunks.
    Header(WorkItem),
    /// The reason why the message cannot be decoded.
    Unreadable(String),
}

impl Content {
    fn of(stored: &Stored<OrchestratorItem>) -> Self {
        let text = &stored.document.work_item;
        if let Text::Damaged(reason) = text {
            return Self::Unreadable(reason.clone());
        }
        match serde_json::from_str(text.header()) {
            Ok(item) if text.chunked().is_some() => Self::Header(item),
            Ok(item) => Self::Whole(item),
            Err(error) => Self::Unreadable(format!(
                "message `{}` is not a work item: {error}",
                stored.id
            )),
        }
    }

    /// Returns the message, perhaps without its long strings; `None` when it cannot be decoded.
    pub(crate) fn item(&self) -> Option<&WorkItem> {
        match self {
            Self::Whole(item) | Self::Header(item) => Some(item),
            Self::Unreadable(_) => None,
        }
    }
}

impl Message {
    /// Decodes a message found by a query that was sent at `seen_at`, or written at that time.
    pub(crate) fn read(stored: Stored<OrchestratorItem>, seen_at: Instant) -> Self {
        let content = Content::of(&stored);
        Self {
            stored,
            content,
            seen_at,
            ticket: None,
        }
    }

    /// Wraps a message that this process has written by a request sent at `sent_at`. Returns `None`
    /// when the message has no valid id.
    ///
    /// A fetch may find and consume the message before the answer to that request arrives, so the
    /// time of the answer does not prove that the message is still queued.
    pub(crate) fn written(
        document: OrchestratorItem,
        item: WorkItem,
        etag: ETag,
        sent_at: Instant,
    ) -> Option<Self> {
        let stored = Stored {
            id: document.key().to_id().ok()?,
            etag,
            timestamp: document.enqueued_at,
            document,
        };
        if stored.document.work_item.chunked().is_some() {
            return Some(Self::read(stored, sent_at));
        }
        Some(Self {
            stored,
            content: Content::Whole(item),
            seen_at: sent_at,
            ticket: None,
        })
    }

    /// Wraps a message that is not stored. Returns `None` when it has no valid id.
    pub(crate) fn unstored(
        document: OrchestratorItem,
        item: WorkItem,
        ticket: Ticket,
    ) -> Option<Self> {
        let message = Self::written(document, item, ETag::new(""), Instant::now())?;
        Some(Self {
            ticket: Some(ticket),
            ..message
        })
    }

    /// Returns whether the store has the message.
    pub(crate) fn is_stored(&self) -> bool {
        self.ticket.is_none()
    }

    /// Returns whether the caller of a message that is not stored has left it.
    pub(super) fn has_failed(&self) -> bool {
        self.ticket.as_ref().is_some_and(Ticket::has_failed)
    }

    /// Notes whether the message was stored meanwhile.
    pub(crate) fn settle(&mut self) {
        if let Some(etag) = self.ticket.as_ref().and_then(Ticket::stored) {
            self.was_stored(etag);
        }
    }

    /// Notes the version of a message that was stored meanwhile.
    pub(crate) fn was_stored(&mut self, etag: ETag) {
        self.stored.etag = etag;
        self.ticket = None;
    }

    pub(crate) fn id(&self) -> &ItemId {
        &self.stored.id
    }

    /// Returns the bytes of memory: text and parsed form.
    pub(crate) fn bytes(&self) -> usize {
        2 * self.stored.document.work_item.header().len() + ITEM_OVERHEAD
    }

    /// Returns the orchestration that the message starts; `None` if it starts none.
    pub(crate) fn orchestration(&self) -> Option<&str> {
        match self.content.item()? {
            WorkItem::StartOrchestration { orchestration, .. }
            | WorkItem::ContinueAsNew { orchestration, .. } => Some(orchestration),
            _ => None,
        }
    }

    /// Returns whether the message starts a new instance.
    pub(crate) fn begins_instance(&self) -> bool {
        let item = self.content.item();
        matches!(item, Some(WorkItem::StartOrchestration { .. }))
    }

    /// Returns whether the message can be decoded.
    pub(crate) fn is_readable(&self) -> bool {
        self.content.item().is_some()
    }

    /// Returns whether the message starts an execution: the first one, or that of an orchestration
    /// that continues as new.
    pub(crate) fn is_start(&self) -> bool {
        self.orchestration().is_some()
    }

    /// Returns whether the message starts another execution of an existing instance. duroxide
    /// ignores a second start of the first one.
    pub(crate) fn continues_as_new(&self) -> bool {
        let item = self.content.item();
        matches!(item, Some(WorkItem::ContinueAsNew { .. }))
    }

    /// Returns whether the message cancels its instance.
    pub(crate) fn is_cancellation(&self) -> bool {
        let item = self.content.item();
        matches!(item, Some(WorkItem::CancelInstance { .. }))
    }

    /// Returns the instance that has cancelled its child by this message.
    pub(crate) fn canceller(&self) -> Option<&str> {
        self.stored.document.cancelled_by.as_deref()
    }

    /// Returns whether an instance that is not this parent has cancelled its child by this message.
    pub(crate) fn is_of_another_parent(&self, parent: Parent<'_>) -> bool {
        match parent {
            Parent::Known(parent) => self.canceller().is_some_and(|by| Some(by) != parent),
            Parent::Unknown => false,
        }
    }

    /// Returns whether the message ends a child of an earlier instance of this id. One that has not begun
    /// has no children.
    pub(crate) fn is_of_earlier_life(&self, instance: Option<&Instance>) -> bool {
        let is_end = matches!(
            self.content.item(),
            Some(WorkItem::SubOrchCompleted { .. } | WorkItem::SubOrchFailed { .. })
        );
        let begun = instance.filter(|instance| instance.is_created());
        let created_at = begun.map(|instance| instance.created_at);
        let parent = self.stored.document.parent_created_at;
        is_end && parent.is_some() && parent != created_at
    }

    pub(crate) fn kind(&self) -> MessageKind {
        match (self.is_start(), self.is_cancellation()) {
            (true, _) => MessageKind::Start,
            (_, true) => MessageKind::Cancellation,
            _ if self.queue().is_some() => MessageKind::Event,
            _ => MessageKind::Other,
        }
    }

    /// Returns the queue of a queued event; `None` for other messages.
    pub(crate) fn queue(&self) -> Option<&str> {
        match self.content.item()? {
            WorkItem::QueueMessage { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Returns the position among the messages of an instance. A start comes first: other messages
    /// may have overtaken it, more than one turn takes, and wait for it.
    fn order(&self) -> (bool, Timestamp, Timestamp, &ItemId) {
        let document = &self.stored.document;
        let (due_at, enqueued_at) = (document.due_at(), document.enqueued_at);
        (!self.is_start(), due_at, enqueued_at, &self.stored.id)
    }
}

/// What is known of the parent of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parent<'a> {
    /// The parent; `None` for an instance without one.
    Known(Option<&'a str>),
    Unknown,
}

impl<'a> Parent<'a> {
    /// Returns the parent of an instance, or that of the start that it begins with.
    pub(crate) fn of(instance: Option<&'a Instance>, messages: &'a [Message]) -> Self {
        if let Some(instance) = instance.filter(|instance| instance.is_created()) {
            return Self::Known(instance.parent_instance_id.as_deref());
        }
        let mut items = messages.iter().filter_map(|m| m.content.item());
        let parent = items.find_map(|item| match item {
            WorkItem::StartOrchestration {
                parent_instance, ..
            } => Some(parent_instance),
            _ => None,
        });
        parent.map_or(Self::Unknown, |parent| Self::Known(parent.as_deref()))
    }
}

/// Sorts messages into the order in which an orchestration sees them.
pub(crate) fn sort(messages: &mut [Message]) {
    messages.sort_by(|a, b| a.order().cmp(&b.order()));
}

/// Returns copies of the messages that the next turn may take, in their order: of each queue as many
/// events as a turn takes at most, and all other messages.
pub(crate) fn for_next_turn<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<Message> {
    let mut messages: Vec<&Message> = messages.collect();
    messages.sort_by(|a, b| a.order().cmp(&b.order()));
    let mut events = HashMap::new();
    messages.retain(|message| {
        message.queue().is_none_or(|queue| {
            let of_queue = events.entry(queue).or_insert(0);
            *of_queue += 1;
            *of_queue <= MAX_MESSAGES
        })
    });
    messages.into_iter().cloned().collect()
}

/// Sorts messages, and moves cancellations to the front, behind a start: a turn that no code can
/// execute consumes nothing, so a cancellation behind the messages of one turn would never be seen.
pub(crate) fn sort_cancellations_first(messages: &mut [Message]) {
    sort(messages);
    messages.sort_by_key(|message| (!message.is_start(), !message.is_cancellation()));
}

/// Returns the messages beyond the limits of one turn, and keeps the others.
pub(crate) fn split_off_others(messages: &mut Vec<Message>) -> Vec<Message> {
    let mut bytes = 0_usize;
    let fitting = messages.iter().take(MAX_MESSAGES).take_while(|message| {
        bytes = bytes.saturating_add(message.stored.document.work_item.bytes());
        bytes <= MAX_TURN_BYTES
    });
    let fitting = fitting.count().max(1);
    messages.split_off(fitting.min(messages.len()))
}
