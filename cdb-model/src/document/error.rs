//! Errors of encoding and decoding documents.

use crate::limits::{MAX_DOCUMENT_BYTES, MAX_TTL_SECONDS, SYSTEM_PROPERTY_BYTES};
use crate::value::{IdError, ItemId, PartitionKey};

/// Why a document cannot be stored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The key has no valid id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// `Serialize` failed, or did not write a JSON object.
    #[error("`{document}` cannot be serialized as a JSON object: {reason}")]
    Serialize {
        /// The document type.
        document: &'static str,
        /// The failure.
        reason: String,
    },
    /// The fields of the id have changed since the document was read. An id never changes.
    #[error(
        "`{document}` was read at id `{id}`, but its fields now have the id `{key}`; restore them, or delete the document and create another one"
    )]
    OtherKey {
        /// The document type.
        document: &'static str,
        /// The stored id.
        id: ItemId,
        /// The id of the document's key.
        key: ItemId,
    },
    /// The partition key has changed since the document was read. It never changes.
    #[error(
        "`{document}` was read in partition {partition}, but its fields now have {found}; restore them, or delete the document and create another one"
    )]
    OtherPartition {
        /// The document type.
        document: &'static str,
        /// The partition of the document.
        partition: PartitionKey,
        /// The partition of its fields.
        found: PartitionKey,
    },
    /// The service refuses the time to live.
    #[error(
        "`{document}` with id `{id}` has a time to live of {seconds} seconds, the service allows 1 to {MAX_TTL_SECONDS}, and -1 for never"
    )]
    TimeToLive {
        /// The document type.
        document: &'static str,
        /// The id.
        id: ItemId,
        /// The time to live.
        seconds: i64,
    },
    /// The document is larger than the service allows.
    #[error(
        "`{document}` with id `{id}` has {length} bytes as JSON, {MAX_DOCUMENT_BYTES} are allowed per document: the service's 2 MB \
         without {SYSTEM_PROPERTY_BYTES} bytes for its own properties; divide the document"
    )]
    TooLarge {
        /// The document type.
        document: &'static str,
        /// The id.
        id: ItemId,
        /// The bytes of its JSON.
        length: usize,
    },
}

/// Why stored JSON cannot be read as a document of a type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// No type of the container has the discriminator.
    #[error("container `{container}` has no document type `{discriminator}`")]
    UnknownType {
        /// The container's Rust type.
        container: &'static str,
        /// The stored discriminator; empty if it is missing.
        discriminator: String,
    },
    /// The document has another type.
    #[error("expected a `{expected}`, but item `{id}` is a `{found}`")]
    WrongType {
        /// The expected discriminator.
        expected: &'static str,
        /// The stored discriminator; empty if it is missing.
        found: String,
        /// The id.
        id: String,
    },
    /// The JSON does not match the Rust type.
    #[error("item `{id}` does not match `{document}`: {reason}")]
    Malformed {
        /// The Rust type.
        document: &'static str,
        /// The id; empty if it could not be read.
        id: String,
        /// The error of serde or of an upcast.
        reason: serde_json::Error,
    },
}

impl DecodeError {
    /// Adds the id of the document that does not match its type.
    pub(crate) fn of_item(self, item: &str) -> Self {
        match self {
            Self::Malformed {
                document, reason, ..
            } => Self::Malformed {
                document,
                id: item.to_owned(),
                reason,
            },
            other => other,
        }
    }
}
