//! The traits behind `#[derive(Document)]`: a type, its key, and what comes back from the store.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::etag::ETag;
use crate::id::{IdError, ItemId};
use crate::partition_key::PartitionKey;
use crate::shape::DocumentShape;
use crate::timestamp::Timestamp;

/// A document type. Implemented by `#[derive(Document)]`, not by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a document type",
    note = "add `#[derive(Document, Serialize, Deserialize)]` and `#[document(...)]` to it"
)]
pub trait Document: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The fields that make the id.
    type Key: DocumentKey<Document = Self>;
    /// The type as constant data.
    const SHAPE: &'static DocumentShape;

    /// The key of this document.
    fn key(&self) -> Self::Key;

    /// The partition that this document belongs to.
    fn partition_key(&self) -> PartitionKey;
}

/// The typed identity of a document within its partition: formats to the id and parses back from it.
pub trait DocumentKey: Clone + std::fmt::Debug + Send + Sync + Sized + 'static {
    /// The document type that this key belongs to.
    type Document: Document<Key = Self>;

    /// The item id.
    ///
    /// # Errors
    /// [`IdError::TooLong`] above the service's 1023 bytes.
    fn to_id(&self) -> Result<ItemId, IdError>;

    /// Reads an id of this type.
    ///
    /// # Errors
    /// [`IdError::Malformed`] when `id` was not made from this pattern.
    fn parse(id: &str) -> Result<Self, IdError>;
}

/// A key whose id pattern holds the whole partition key, so that it alone locates the document.
#[diagnostic::on_unimplemented(
    message = "the id pattern of this key does not hold the partition key",
    note = "name the partition explicitly, with the method that takes a `PartitionKey`"
)]
pub trait LocatedKey: DocumentKey {
    /// The partition that the document with this key is in.
    fn partition_key(&self) -> PartitionKey;
}

/// A document as it is stored: with what the service adds beside it, never inside it.
#[derive(Clone, Debug)]
pub struct Stored<T> {
    /// The id it is stored under. Equals the id of the document's key unless another program wrote it.
    pub id: ItemId,
    /// The document itself.
    pub document: T,
    /// Its version.
    pub etag: ETag,
    /// When it was last written, by the service's clock, to the second.
    pub timestamp: Timestamp,
}

impl<T> Stored<T> {
    /// Keeps what surrounds the document and converts the document.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Stored<U> {
        Stored {
            id: self.id,
            document: convert(self.document),
            etag: self.etag,
            timestamp: self.timestamp,
        }
    }
}
