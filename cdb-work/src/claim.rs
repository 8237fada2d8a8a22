//! The identity of a claim: the coordinator, the message, and the fence of the partition.

use std::sync::Arc;

use super::error::WorkError;
use super::stream::StreamKey;

/// The claim that a report refers to.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The id of the coordinator that claimed the message.
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
