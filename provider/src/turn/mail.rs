//! The messages that this process knows to be queued, with their contents, so that a turn needs no search for them.
//!
//! What is known here may be gone already: a poll may have been answered before another runtime's turn consumed what it
//! found. So a message counts only if it was seen after the history that it is to be added to was read; what was
//! consumed later has moved the instance's ETag. And a turn deletes its messages in the batch that commits it, so one
//! that is gone makes the commit fail, and nothing happens twice.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cdb_model::{Document, DocumentKey, ETag, ItemId, Stored, Timestamp};
use duroxide::providers::WorkItem;
use tokio::time::Instant;

use crate::documents::{OrchestratorItem, Text};

/// Most messages of one turn. Each is deleted by the commit, which has room for 100 operations in all.
pub(super) const MAX_MESSAGES: usize = 64;

/// Most bytes of messages in one turn, unless a single one has more.
const MAX_TURN_BYTES: usize = 32 * 1024 * 1024;

/// Most bytes of messages that are kept. What comes beyond is left to a poll, which finds it when others are done.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// How many consumed messages are remembered, so that a poll that was answered before their turn was committed does
/// not bring them back.
const REMEMBERED: usize = 16_384;

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
    Outline(WorkItem),
    /// Nothing, and why.
    Unreadable(String),
}

impl Content {
    fn of(stored: &Stored<OrchestratorItem>) -> Self {
        let text = &stored.document.work_item;
        if let Text::Damaged(reason) = text {
            return Self::Unreadable(reason.clone());
        }
        match serde_json::from_str(text.outline()) {
            Ok(item) if text.chunked().is_some() => Self::Outline(item),
            Ok(item) => Self::Whole(item),
            Err(error) => {
                Self::Unreadable(format!("message `{}` is no work item: {error}", stored.id))
            }
        }
    }

    /// The message, perhaps without its long strings.
    pub(super) fn item(&self) -> Option<&WorkItem> {
        match self {
            Self::Whole(item) | Self::Outline(item) => Some(item),
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

    /// A message that this process has just written, and the version that it has. `None` when it has no id.
    pub(crate) fn written(document: OrchestratorItem, item: WorkItem, etag: ETag) -> Option<Self> {
        let stored = Stored {
            id: document.key().to_id().ok()?,
            etag,
            timestamp: document.enqueued_at,
            document,
        };
        if stored.document.work_item.chunked().is_some() {
            return Some(Self::read(stored, Instant::now()));
        }
        Some(Self {
            stored,
            content: Content::Whole(item),
            seen_at: Instant::now(),
        })
    }

    pub(crate) fn id(&self) -> &ItemId {
        &self.stored.id
    }

    fn bytes(&self) -> usize {
        // Text and parsed form.
        2 * self.stored.document.work_item.outline().len() + 512
    }

    fn order(&self) -> (Timestamp, Timestamp, &ItemId) {
        let document = &self.stored.document;
        (document.due_at(), document.enqueued_at, &self.stored.id)
    }
}

/// Puts messages into the order in which an orchestration sees them, and leaves what is too much for later.
pub(super) fn in_order(messages: &mut Vec<Message>) {
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

/// All messages known to this process.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<String, Vec<Message>>,
    bytes: usize,
    /// Consumed messages, and when that was known.
    consumed: HashMap<ItemId, Instant>,
    consumed_in_order: VecDeque<ItemId>,
}

impl Mail {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a queued message. One that was consumed and is seen later was sent again after a lost answer.
    pub(crate) fn note(&self, message: Message) {
        let mut state = self.state();
        let bytes = message.bytes();
        let consumed_at = state.consumed.get(message.id());
        let is_gone = consumed_at.is_some_and(|at| message.seen_at <= *at);
        if is_gone || state.bytes + bytes > MAX_BYTES {
            return;
        }
        let instance_id = message.stored.document.instance_id.clone();
        let known = state.known.entry(instance_id).or_default();
        if let Some(same) = known.iter_mut().find(|known| known.id() == message.id()) {
            // Delayed or released meanwhile, perhaps: what was seen later counts.
            if message.seen_at >= same.seen_at {
                *same = message;
            }
            return;
        }
        known.push(message);
        state.bytes += bytes;
    }

    /// The messages of an instance that are due at `now`, in order. Forgets those that were last seen before its
    /// history was read.
    pub(crate) fn due(
        &self,
        instance_id: &str,
        now: Timestamp,
        read_at: Option<Instant>,
    ) -> Vec<Message> {
        let mut state = self.state();
        let state = &mut *state;
        let Some(known) = state.known.get_mut(instance_id) else {
            return Vec::new();
        };
        known.retain(|message| {
            let current = Some(message.seen_at) >= read_at;
            state.bytes -= if current { 0 } else { message.bytes() };
            current
        });
        let mut due: Vec<Message> = known
            .iter()
            .filter(|message| message.stored.document.due_at() <= now)
            .cloned()
            .collect();
        in_order(&mut due);
        due
    }

    /// A committed turn has consumed these messages.
    pub(crate) fn consumed(&self, messages: &[Message]) {
        let mut state = self.state();
        let now = Instant::now();
        for message in messages {
            state.remove(&message.stored.document.instance_id, message.id());
            if state.consumed.insert(message.id().clone(), now).is_none() {
                state.consumed_in_order.push_back(message.id().clone());
            }
        }
        while state.consumed_in_order.len() > REMEMBERED {
            if let Some(oldest) = state.consumed_in_order.pop_front() {
                state.consumed.remove(&oldest);
            }
        }
    }

    /// What is known of an instance has proved wrong, or may.
    pub(crate) fn forget(&self, instance_id: &str) {
        let mut state = self.state();
        let forgotten = state.known.remove(instance_id).unwrap_or_default();
        state.bytes -= forgotten.iter().map(Message::bytes).sum::<usize>();
    }
}

impl State {
    fn remove(&mut self, instance_id: &str, id: &ItemId) {
        let Some(known) = self.known.get_mut(instance_id) else {
            return;
        };
        if let Some(at) = known.iter().position(|message| message.id() == id) {
            self.bytes -= known.remove(at).bytes();
        }
        if known.is_empty() {
            self.known.remove(instance_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::OrchestratorItemKey;

    fn message(cause: &str, visible_at: u64) -> Message {
        let item = WorkItem::ExternalRaised {
            instance: "i".to_owned(),
            name: cause.to_owned(),
            data: String::new(),
        };
        let at = Timestamp::from_millis(visible_at);
        let document = OrchestratorItem::new(&item, cause.to_owned(), at, at).unwrap();
        let id = OrchestratorItemKey::new("i", cause).to_id().unwrap();
        let stored = Stored {
            id,
            document,
            etag: ETag::new("1"),
            timestamp: at,
        };
        Message::read(stored, Instant::now())
    }

    fn due(mail: &Mail, now: u64) -> Vec<u64> {
        let due = mail.due("i", Timestamp::from_millis(now), None);
        due.iter()
            .map(|message| message.stored.document.visible_at.as_millis())
            .collect()
    }

    #[test]
    fn messages_are_due_in_the_order_of_their_time() {
        let mail = Mail::default();
        for at in [5, 3, 9] {
            mail.note(message(&at.to_string(), at));
        }
        assert_eq!(due(&mail, 5), [3, 5]);
        assert_eq!(due(&mail, 9), [3, 5, 9]);
    }

    #[test]
    fn what_was_consumed_does_not_come_back() {
        let mail = Mail::default();
        mail.note(message("a", 1));
        let polled = message("a", 1);
        mail.consumed(&[message("a", 1)]);
        mail.note(polled);
        assert_eq!(due(&mail, 9), [0; 0]);
        assert_eq!(mail.state().bytes, 0);
    }

    #[test]
    fn what_is_seen_after_it_was_consumed_was_sent_again() {
        let mail = Mail::default();
        mail.consumed(&[message("a", 1)]);
        mail.note(message("a", 1));
        assert_eq!(due(&mail, 9), [1]);
    }

    #[test]
    fn what_was_seen_before_the_history_was_read_counts_no_more() {
        let mail = Mail::default();
        mail.note(message("a", 1));
        let read_at = Some(Instant::now());
        mail.note(message("b", 2));
        let due = mail.due("i", Timestamp::from_millis(9), read_at);
        assert_eq!(due.len(), 1);
        mail.consumed(&due);
        assert_eq!(mail.state().bytes, 0);
    }

    #[test]
    fn a_message_that_is_seen_twice_is_known_once() {
        let mail = Mail::default();
        mail.note(message("a", 1));
        mail.note(message("a", 1));
        assert_eq!(due(&mail, 9), [1]);
        mail.forget("i");
        assert_eq!(due(&mail, 9), [0; 0]);
        assert_eq!(mail.state().bytes, 0);
    }
}
