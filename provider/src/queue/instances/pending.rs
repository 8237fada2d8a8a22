//! A message of an instance that this process knows and has not handed out.

use std::time::Instant;

use super::message::Message;

/// A pending message.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) message: Message,
    pub(super) due: Instant,
    /// When the answer to its write arrived, if this process wrote the message. A poll has found the
    /// others, so that other runtimes know them too.
    pub(super) answered_at: Option<Instant>,
}

impl Pending {
    /// Returns whether a read of the partition, which was sent at a time, finds the message unless it is
    /// consumed. A read leaves out what is due later. A write whose answer came later may have arrived
    /// after the read.
    pub(super) fn is_found_by(&self, read_at: tokio::time::Instant) -> bool {
        let at = read_at.into_std();
        self.due <= at && self.answered_at.is_none_or(|answered| answered <= at)
    }
}
