//! What became of an attempt to receive a message.

use cdb_client::{Error, ErrorKind};
use cdb_model::Stored;

use super::handler::Failed;
use crate::message::MessageDocument;
use crate::outbox::Sealed;

/// Where a stream stands after an attempt.
pub(super) enum Step<C> {
    /// The message was received or given up; the record as it is now. `None` for a message without a stream.
    Received(Option<Box<Stored<MessageDocument<C>>>>),
    /// It is tried again later, and the stream waits for it.
    Waits,
    /// Somebody else was there; what is known of the stream is out of date.
    Lost,
}

/// What became of one effect that a handler made.
pub(super) enum Attempted<C> {
    /// It is decided.
    Step(Step<C>),
    /// The handler has to look again; whether it counts as an attempt if that does not help.
    Stale { reason: String, counts: bool },
    /// It cannot be committed.
    Failed(Failed),
}

/// Why the batch of a receipt was not carried out.
pub(super) enum Refusal {
    /// Somebody else received the message, or sent on the same streams; or nobody knows. Reading tells.
    Lost,
    /// An operation of the handler found another state than it had read. Where a version has changed, somebody else got
    /// on; where an id is taken or missing, it may be so for ever.
    Stale { counts: bool },
    /// The service is not there; nobody's fault.
    Unreachable,
    /// The service does not take what the handler made.
    Refused,
}

impl Refusal {
    pub(super) fn of<C: cdb_model::Container>(error: &Error, sealed: &Sealed<C>) -> Self {
        if error.is_ambiguous() {
            return Self::Lost;
        }
        match error.kind() {
            ErrorKind::Conflict | ErrorKind::PreconditionFailed | ErrorKind::NotFound
                if sealed.is_users(error) =>
            {
                Self::Stale {
                    counts: !error.is_precondition_failed(),
                }
            }
            ErrorKind::Conflict | ErrorKind::PreconditionFailed | ErrorKind::NotFound => Self::Lost,
            _ if error.is_transient() => Self::Unreachable,
            _ => Self::Refused,
        }
    }
}
