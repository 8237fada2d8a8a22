//! The identity of a claim: who handed out which message, and under which fence.

use std::sync::Arc;

use super::error::WorkError;
use super::stream_order::StreamKey;

/// The hand-out of a message that a report answers.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The coordinator that handed it out.
    pub(super) owner: Arc<str>,
    pub(super) partition: u16,
    pub(super) fence: u64,
    pub(super) epoch: u64,
    pub(super) key: StreamKey,
    pub(super) sequence: u64,
    pub(super) message_id: String,
}

impl Claim {
    pub(super) fn not_owner(&self) -> WorkError {
        WorkError::NotOwner {
            stream: self.key.stream().to_owned(),
            message_id: self.message_id.clone(),
        }
    }
}
