//! Operations in the service's form.

use serde::Serialize;
use serde_json::value::RawValue;

use super::patch::{PatchBody, PatchOperation};
use crate::document::ETag;
use crate::stored::TimeSlots;
use crate::value::{ItemId, Timestamp};

/// One operation in the service's form.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "operationType", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum BatchOperation {
    /// Creates a document.
    Create {
        /// The document.
        resource_body: Box<RawValue>,
    },
    /// Creates or replaces a document.
    Upsert {
        /// The document.
        resource_body: Box<RawValue>,
        /// The required version.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Replaces a document.
    Replace {
        /// The id.
        id: ItemId,
        /// The document.
        resource_body: Box<RawValue>,
        /// The required version.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Patches a document.
    Patch {
        /// The id.
        id: ItemId,
        /// The changes.
        resource_body: PatchBody,
        /// The required version.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Deletes a document. A missing document fails the batch.
    Delete {
        /// The id.
        id: ItemId,
        /// The required version.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Reads a document. A missing document fails the batch.
    Read {
        /// The id.
        id: ItemId,
    },
}

impl BatchOperation {
    /// Whether a second execution succeeds and leaves the same document as the first.
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Delete { .. } => false,
            Self::Upsert { if_match, .. } | Self::Replace { if_match, .. } => if_match.is_none(),
            Self::Patch {
                resource_body,
                if_match,
                ..
            } => if_match.is_none() && resource_body.is_repeatable(),
            Self::Read { .. } => true,
        }
    }

    /// Sets the time of the write.
    pub(crate) fn set_time(&mut self, times: &TimeSlots, now: Timestamp) {
        match self {
            Self::Create { resource_body }
            | Self::Upsert { resource_body, .. }
            | Self::Replace { resource_body, .. } => {
                if let Some(json) = times.replaced(resource_body, now) {
                    *resource_body = json;
                }
            }
            Self::Patch { resource_body, .. } => {
                if let (TimeSlots::LastChange, Some(PatchOperation::Set { value, .. })) =
                    (times, resource_body.operations.last_mut())
                {
                    *value = now.as_millis().into();
                }
            }
            Self::Delete { .. } | Self::Read { .. } => {}
        }
    }
}
