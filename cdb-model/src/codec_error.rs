//! Errors of writing documents as JSON and of reading them.

use crate::id::{IdError, ItemId};
use crate::limits::MAX_DOCUMENT_BYTES;

/// The reason why a document cannot be stored.
///
/// ```
/// use cdb_model::EncodeError;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop, order};
///
/// let novel = Order { remark: Some("x".repeat(3_000_000)), ..order(7) };
/// let refused = cdb_model::encode::<Shop, _>(&novel);
/// assert!(matches!(refused, Err(EncodeError::TooLarge { length: 3_000_000.., .. })));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Its key has no id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Its `Serialize` failed, or did not write a JSON object.
    #[error("`{document}` cannot be written as a JSON object: {reason}")]
    Serialize {
        /// The document type.
        document: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// It is larger than the service takes.
    #[error(
        "`{document}` with id `{id}` takes {length} bytes, the service takes {MAX_DOCUMENT_BYTES} per document"
    )]
    TooLarge {
        /// The document type.
        document: &'static str,
        /// Its id.
        id: ItemId,
        /// Bytes of its JSON.
        length: usize,
    },
}

/// The reason why stored JSON is not the document that was asked for.
///
/// ```
/// use cdb_model::DecodeError;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// let json = r#"{"id":"refund:1","type":"refund","_etag":"\"1\"","_ts":1763721471}"#;
/// assert!(matches!(cdb_model::decode::<Shop, Order>(json), Err(DecodeError::WrongType { .. })));
/// assert!(matches!(cdb_model::decode_any::<Shop>(json), Err(DecodeError::UnknownType { .. })));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The discriminator belongs to no type of the container.
    #[error("container `{container}` has no document type `{discriminator}`")]
    UnknownType {
        /// The container's Rust type.
        container: &'static str,
        /// The stored discriminator, empty when there is none.
        discriminator: String,
    },
    /// The document is of another type than the one that was asked for.
    #[error("expected a `{expected}`, item `{id}` is a `{found}`")]
    WrongType {
        /// The discriminator that was asked for.
        expected: &'static str,
        /// The one that is stored, empty when there is none.
        found: String,
        /// Its id.
        id: String,
    },
    /// The JSON does not fit the Rust type.
    #[error("item `{id}` does not fit `{document}`")]
    Malformed {
        /// The Rust type.
        document: &'static str,
        /// Its id, empty when that could not be read.
        id: String,
        /// What serde says.
        #[source]
        source: serde_json::Error,
    },
}
