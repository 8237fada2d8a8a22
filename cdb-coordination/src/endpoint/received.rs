//! A delivered message as its handler gets it.

use std::sync::Arc;

use cdb_model::Timestamp;

use crate::message::{Delivered, HandlerError};
use crate::message::{Envelope, MessageAddress, MessageContext, MessageId};
use crate::outbox::{OutboxBatch, Receivers};

/// A received message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Received<M> {
    /// The message.
    pub message: M,
    /// Its id, the same at every attempt.
    pub id: MessageId,
    /// The partition that sent it.
    pub from: MessageAddress,
    /// When it was sent, in the service's time.
    pub sent_at: Timestamp,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// Headers and scope. Messages that the handler sends inherit the trace context and the scope.
    pub context: MessageContext,
}

impl<M> Received<M> {
    /// The name of the handler, for a message of [`OutboxBatch::send_for`].
    pub fn handler(&self) -> Option<&str> {
        self.context.handler()
    }
}

/// The result of a handler: the batch with its effect, or the failure.
pub type Handled<C> = Result<OutboxBatch<C>, HandlerError>;

/// A claimed message, before its payload is read.
pub(crate) struct Arrival {
    pub(crate) envelope: Envelope,
    pub(crate) attempt: u32,
    /// The receivers of messages that the handler publishes.
    pub(crate) receivers: Arc<Receivers>,
}

impl Delivered for Arrival {
    fn message_type(&self) -> &str {
        &self.envelope.message_type
    }

    fn payload(&self) -> &str {
        self.envelope.payload.as_deref().unwrap_or_default()
    }

    fn context(&self) -> &MessageContext {
        &self.envelope.context
    }
}

impl Arrival {
    pub(crate) fn received<M>(self, message: M) -> Received<M> {
        Received {
            message,
            id: self.envelope.id(),
            from: self.envelope.from,
            sent_at: self.envelope.sent_at,
            attempt: self.attempt,
            context: self.envelope.context,
        }
    }
}
