//! A queued message as this process knows it.

use cdb_model::{Document, DocumentKey, ETag, ItemId, Stored, Timestamp};
use duroxide::providers::WorkItem;
use tokio::time::Instant;

use crate::documents::{OrchestratorItem, Text};

/// Most messages of one turn. Each is deleted by the commit, which has room for 100 operations in all.
pub(crate) const MAX_MESSAGES: usize = 64;

/// Most bytes of messages in one turn, unless a single one has more.
const MAX_TURN_BYTES: usize = 32 * 1024 * 1024;

/// A queued message, as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) stored: Stored<OrchestratorItem>,
    pub(crate) content: Content,
    /// When it was certainly still queued.
    pub(crate) seen_at: Instant,
}

/// What is known of a message.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// All of it.
    Whole(WorkItem),
    /// What it is and where it goes; its text is in chunks.
    Header(WorkItem),
    /// Nothing, and why.
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
            Err(error) => {
                Self::Unreadable(format!("message `{}` is no work item: {error}", stored.id))
            }
        }
    }

    /// The message, perhaps without its long strings.
    pub(crate) fn item(&self) -> Option<&WorkItem> {
        match self {
            Self::Whole(item) | Self::Header(item) => Some(item),
            Self::Unreadable(_) => None,
        }
    }
}

impl Message {
    /// A message that was found by a query which was asked at `seen_at`, or written then.
    pub(crate) fn read(stored: Stored<OrchestratorItem>, seen_at: Instant) -> Self {
        let content = Content::of(&stored);
        Self {
            stored,
            content,
            seen_at,
        }
    }

    /// A message that this process has written by a request sent at `sent_at`. `None` when it has no id.
    ///
    /// A fetch may find and consume the message before the answer to that request arrives, so the time of the answer
    /// does not prove that the message is still queued.
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
        })
    }

    pub(crate) fn id(&self) -> &ItemId {
        &self.stored.id
    }

    /// Bytes of memory: text and parsed form.
    pub(crate) fn bytes(&self) -> usize {
        2 * self.stored.document.work_item.header().len() + 512
    }

    fn order(&self) -> (Timestamp, Timestamp, &ItemId) {
        let document = &self.stored.document;
        (document.due_at(), document.enqueued_at, &self.stored.id)
    }
}

/// Puts messages into the order in which an orchestration sees them, and leaves what is too much for later.
pub(crate) fn in_order(messages: &mut Vec<Message>) {
    messages.sort_by(|a, b| a.order().cmp(&b.order()));
    messages.truncate(MAX_MESSAGES);
    let mut bytes = 0_usize;
    let fitting = messages.iter().take_while(|message| {
        bytes = bytes.saturating_add(message.stored.document.work_item.bytes());
        bytes <= MAX_TURN_BYTES
    });
    let fitting = fitting.count();
    messages.truncate(fitting.max(1));
}
