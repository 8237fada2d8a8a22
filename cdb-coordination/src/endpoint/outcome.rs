//! The results of an attempt to receive a message.

use cdb_client::{Error, ErrorKind};
use cdb_model::Stored;

use crate::message::HandlerError;
use crate::message::MessageDocument;
use crate::outbox::PreparedBatch;

/// The state of a stream after an attempt.
pub(super) enum Step<C> {
    /// The message was received or dead-lettered; the new record of the stream, `None` without a
    /// stream.
    Received(Option<Box<Stored<MessageDocument<C>>>>),
    /// The message is retried later, and its stream waits.
    Waits,
    /// Another process was faster. The record of the stream must be read again.
    Lost,
}

/// The result of committing one effect of a handler.
pub(super) enum Attempted<C> {
    /// The attempt has a result.
    Step(Step<C>),
    /// The handler has to run again. `counts` tells whether a repeated failure counts as an
    /// attempt.
    Stale { reason: String, counts: bool },
    /// The effect cannot be committed.
    Failed(HandlerError),
}

/// Why the batch of a receipt was refused.
pub(super) enum Refusal {
    /// Another process has received the message or used the same streams, or the outcome is
    /// unknown. The record decides.
    Lost,
    /// An operation of the handler met another state than the handler had read. A changed version
    /// means that another process made progress; a taken or missing id may be permanent.
    Stale { counts: bool },
    /// The service is away.
    Unreachable,
    /// The service refused the content of the batch.
    Refused,
}

impl Refusal {
    pub(super) fn of<C: cdb_model::Container>(error: &Error, prepared: &PreparedBatch<C>) -> Self {
        if error.is_ambiguous() {
            return Self::Lost;
        }
        match error.kind() {
            ErrorKind::Conflict | ErrorKind::PreconditionFailed | ErrorKind::NotFound
                if prepared.is_users(error) =>
            {
                Self::Stale {
                    counts: !error.is_precondition_failed(),
                }
            }
            ErrorKind::Conflict if error.is_unique_key_conflict() => Self::Refused,
            ErrorKind::Conflict | ErrorKind::PreconditionFailed | ErrorKind::NotFound => Self::Lost,
            _ if error.is_transient() || error.is_denied() => Self::Unreachable,
            _ => Self::Refused,
        }
    }
}
