//! An instance that this process cannot process, and what may change that.

use std::time::Duration;

use cdb_model::Timestamp;

use super::message::MessageKind;
use crate::timing::MAX_UNFIT_BACKOFF;

/// The reason why this process cannot process an instance: its start has not arrived, it needs
/// another version or other code, or its documents cannot be decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfit {
    /// The newest due time of the messages that were considered.
    pub(super) newest: Timestamp,
    pub(super) backoff: Duration,
    /// The version that the instance is pinned to, if that is the only reason. A dispatcher that
    /// supports the version may take it.
    pub(super) pinned: Option<u64>,
    /// Whether a polled message of the awaited kind has ended a backoff: a start, or for an instance
    /// that waits for other code a cancellation.
    pub(super) awaited_tried: bool,
    /// Whether the code of this process cannot execute the turn.
    pub(super) for_other_code: bool,
}

/// The classification of a polled message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The instance can be processed.
    Ready,
    /// The instance gets the message later: this process or another runtime is processing it, or only
    /// dispatchers that support its version can.
    NotNow,
    /// The instance is in backoff.
    Backoff,
}

impl Unfit {
    /// Returns the next backoff, which doubles each time.
    pub(super) fn next_backoff(self) -> Duration {
        (self.backoff * 2).min(MAX_UNFIT_BACKOFF)
    }

    /// Returns whether a message of this kind may end the reason.
    pub(super) fn waits_for(self, kind: MessageKind) -> bool {
        kind == MessageKind::Start || self.for_other_code && kind == MessageKind::Cancellation
    }

    /// Returns whether the instance waits for other code, and a polled message does not end the backoff.
    pub(super) fn leaves_stored(self, visible_at: Timestamp, kind: MessageKind) -> bool {
        self.for_other_code
            && match kind {
                MessageKind::Event | MessageKind::Other => true,
                MessageKind::Start => visible_at <= self.newest,
                MessageKind::Cancellation => self.awaited_tried && visible_at <= self.newest,
            }
    }

    /// Classifies a polled message, and notes a retry that it triggers.
    pub(super) fn classify(&mut self, visible_at: Timestamp, kind: MessageKind) -> Readiness {
        let is_awaited = if self.for_other_code {
            kind == MessageKind::Cancellation
        } else {
            kind == MessageKind::Start && self.pinned.is_none()
        };
        // An instance that was deleted and started again may need no other code.
        let may_help = !self.for_other_code || self.waits_for(kind);
        let is_newer = may_help && visible_at > self.newest;
        let is_new_awaited = is_awaited && !self.awaited_tried;
        if is_newer || is_new_awaited {
            self.newest = self.newest.max(visible_at);
            self.awaited_tried |= is_new_awaited;
            return Readiness::Ready;
        }
        match self.pinned {
            Some(_) => Readiness::NotNow,
            None => Readiness::Backoff,
        }
    }
}
