//! The identity of a claim: the coordinator, the message, and the fence of the partition.

use std::sync::Arc;

use super::stream::{StreamClaim, StreamKey};
use crate::error::WorkError;

/// The claim that a report refers to.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// The id of the coordinator that claimed the message.
    pub(crate) owner: Arc<str>,
    pub(crate) partition: u16,
    pub(crate) fence: u64,
    pub(crate) epoch: u64,
    pub(crate) key: StreamKey,
    pub(crate) sequence: u64,
    pub(crate) message_id: String,
}

impl Claim {
    pub(crate) fn in_stream(&self) -> StreamClaim<'_> {
        StreamClaim {
            key: &self.key,
            sequence: self.sequence,
            epoch: self.epoch,
        }
    }

    pub(crate) fn not_owner(&self) -> WorkError {
        WorkError::NotOwner {
            stream: self.key.stream().to_owned(),
            message_id: self.message_id.clone(),
        }
    }
}
