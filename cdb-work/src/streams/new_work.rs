//! New messages.

use cdb_coordination::Message;
use cdb_coordination::message::MessageContext;
use cdb_model::Timestamp;

use super::documents::Lane;
use super::status::WorkStatus;
use super::stream::StreamKey;

/// A message to store.
///
/// ```
/// use cdb_work::{NewWork, WorkStatus};
///
/// fn paid(order: &str) -> NewWork {
///     NewWork::inbox(order, "paid-1") // the stream, and the id that detects a duplicate
///         .with_body("paid", r#"{"cents": 9900}"#)
///         .needing(WorkStatus::RECEIVER_DONE | WorkStatus::PROJECTION_DONE)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct NewWork {
    pub(crate) lane: Lane,
    pub(crate) stream: String,
    pub(crate) message_id: String,
    pub(crate) kind: String,
    pub(crate) body: String,
    pub(crate) context: MessageContext,
    pub(crate) needs: WorkStatus,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) is_event: bool,
}

impl NewWork {
    /// A received message. `message_id` is the sender's and unique within the stream: a duplicate
    /// is dropped. Completed when its receiver is done.
    pub fn inbox(stream: impl Into<String>, message_id: impl Into<String>) -> Self {
        Self::new(Lane::Inbox, stream.into(), message_id.into())
    }

    /// A message to others. `message_id` is unique within the stream. Completed when it is
    /// published.
    pub fn outbox(stream: impl Into<String>, message_id: impl Into<String>) -> Self {
        Self::new(Lane::Outbox, stream.into(), message_id.into())
    }

    fn new(lane: Lane, stream: String, message_id: String) -> Self {
        Self {
            lane,
            stream,
            message_id,
            kind: String::new(),
            body: String::new(),
            context: MessageContext::current(),
            needs: match lane {
                Lane::Inbox => WorkStatus::RECEIVER_DONE,
                Lane::Outbox => WorkStatus::PUBLISHED,
            },
            due_at: None,
            is_event: false,
        }
    }

    /// Sets the kind and the content, usually JSON text.
    #[must_use]
    pub fn with_body(mut self, kind: impl Into<String>, body: impl Into<String>) -> Self {
        self.kind = kind.into();
        self.body = body.into();
        self
    }

    /// Sets kind and content from a typed message: its [`TYPE`](Message::TYPE) and its JSON.
    ///
    /// # Errors
    /// When the message cannot be serialized.
    pub fn with_message<M: Message>(self, message: &M) -> Result<Self, serde_json::Error> {
        Ok(self.with_body(M::TYPE, serde_json::to_string(message)?))
    }

    /// Adds a header. Trace headers are inherited from the message that is being handled.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.context.headers.insert(name.into(), value.into());
        self
    }

    /// Adds an entry of the scope: the `tenant`, `user` or other subject that the message belongs
    /// to. The scope is inherited from the message that is being handled.
    #[must_use]
    pub fn with_scope(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.context.scope.insert(name.into(), value.into());
        self
    }

    /// Names the handler of the message, see
    /// [`WorkHandlers::on_handler`](crate::WorkHandlers::on_handler).
    #[must_use]
    pub fn for_handler(self, handler: impl Into<String>) -> Self {
        self.with_header(MessageContext::HANDLER, handler)
    }

    /// Names the handler of the message, and detects duplicates per message and handler: several
    /// handlers may each get the message once. The stored id is `id@handler`.
    #[must_use]
    pub fn once_per_handler(mut self, handler: impl Into<String>) -> Self {
        let handler = handler.into();
        self.message_id = format!("{}@{handler}", self.message_id);
        self.for_handler(handler)
    }

    /// Sets the stages that complete the message, instead of the default of its lane. An empty set
    /// changes nothing.
    #[must_use]
    pub fn needing(mut self, stages: WorkStatus) -> Self {
        if !stages.is_empty() {
            self.needs = stages;
        }
        self
    }

    /// Stores the message as an event of its stream too, in the same batch and with the next
    /// version: kind, content, headers and scope. The message gets the stage
    /// [`EVENT_STORED`](WorkStatus::EVENT_STORED). A duplicate message stores no event.
    #[must_use]
    pub fn as_event(mut self) -> Self {
        self.is_event = true;
        self
    }

    /// Sets the earliest time to claim the message. Later messages of its stream wait too.
    #[must_use]
    pub fn not_before(mut self, time: Timestamp) -> Self {
        self.due_at = Some(time);
        self
    }

    pub(crate) fn key(&self) -> StreamKey {
        StreamKey::new(self.lane, &self.stream)
    }
}
