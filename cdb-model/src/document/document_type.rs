//! The traits of `#[derive(Document)]`: a document type, its key, and a stored document.

use std::fmt;
use std::ops::Deref;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::crud::{Create, Delete, DocumentAddress, Replace, Upsert};
use super::error::EncodeError;
use super::etag::ETag;
use super::partition::Partition;
use crate::shape::DocumentShape;
use crate::value::{IdError, ItemId, PartitionKey, Timestamp, numbers};

/// A document type. Implemented by [`#[derive(Document)]`](macro@crate::Document).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a document type",
    note = "add `#[derive(Document, Serialize, Deserialize)]` and `#[document(...)]` to it"
)]
pub trait Document: Sized + Send + Sync + 'static {
    /// The key: the fields of the id pattern.
    type Key: DocumentKey<Document = Self>;
    /// The type as constant data.
    const SHAPE: &'static DocumentShape;

    /// Returns how the fields are written as JSON and read from it.
    fn field_codec() -> FieldCodec<Self>;

    /// Returns the key of this document.
    fn key(&self) -> Self::Key;

    /// Returns the partition key of this document.
    fn partition_key(&self) -> PartitionKey;

    /// Returns the address of the stored document with the key of this one.
    fn address(&self) -> DocumentAddress<Self> {
        self.key().in_partition(self.partition_key())
    }

    /// Returns the fields as a JSON object.
    #[doc(hidden)]
    fn encode_fields(&self) -> Result<String, EncodeError> {
        let written = Self::field_codec().write(self);
        written.map_err(|error| EncodeError::Serialize {
            document: Self::SHAPE.name,
            reason: error.to_string(),
        })
    }

    /// Creates this document. Fails with 409 if an item has its id or unique key.
    fn create(&self) -> Create<Self> {
        Create::new(self.address(), self.encode_fields())
    }

    /// Creates this document, or replaces the one with its key.
    fn upsert(&self) -> Upsert<Self> {
        Upsert::new(self.address(), self.encode_fields())
    }

    /// Replaces the document with the key of this one, whatever its version;
    /// [`Stored::replace`] replaces the version that was read.
    fn replace(&self) -> Replace<Self> {
        Replace::new(self.address(), self.encode_fields())
    }
}

/// How the fields of a document are written as JSON and read from it.
///
/// It is a value instead of two bounds of [`Document`], so that a document without serde's derives
/// is one error instead of one for each generated item.
pub struct FieldCodec<D> {
    write: fn(&D) -> serde_json::Result<String>,
    read: fn(&str) -> serde_json::Result<D>,
}

impl<D: Serialize + DeserializeOwned> FieldCodec<D> {
    /// The JSON of serde's traits.
    pub const fn serde() -> Self {
        Self {
            write: numbers::to_string,
            read: |json| serde_json::from_str(json),
        }
    }
}

impl<D> FieldCodec<D> {
    /// Writes the fields as a JSON object.
    ///
    /// # Errors
    /// When a field cannot be written as JSON, such as NaN or a map with keys that are not strings.
    pub fn write(&self, document: &D) -> serde_json::Result<String> {
        (self.write)(document)
    }

    /// Reads the fields, and ignores all other properties.
    ///
    /// # Errors
    /// When the JSON does not match the type.
    pub fn read(&self, json: &str) -> serde_json::Result<D> {
        (self.read)(json)
    }
}

impl<D> fmt::Debug for FieldCodec<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldCodec").finish_non_exhaustive()
    }
}

/// The typed key of a document within its partition. It formats to the id and parses back from it.
pub trait DocumentKey: Clone + fmt::Debug + Send + Sync + Sized + 'static {
    /// The document type of this key.
    type Document: Document<Key = Self>;
    /// What the key knows of its partition: a [`PartitionKey`] if the id pattern contains the whole
    /// partition key, otherwise [`BatchPartition`](crate::document::BatchPartition).
    type Partition: Partition;

    /// Returns the item id.
    ///
    /// # Errors
    /// [`IdError::TooLong`] above the service's 1023 bytes.
    fn to_id(&self) -> Result<ItemId, IdError>;

    /// Parses an id of this type.
    ///
    /// # Errors
    /// [`IdError::Malformed`] when `id` does not match the id pattern.
    fn parse(id: &str) -> Result<Self, IdError>;

    /// Returns what the key knows of its partition.
    fn partition(&self) -> Self::Partition;

    /// Returns the address of the document with this key in a partition.
    fn in_partition(&self, partition: impl Into<PartitionKey>) -> DocumentAddress<Self::Document> {
        DocumentAddress::new(self.to_id(), partition.into())
    }

    /// Deletes the document with this key.
    fn delete(&self) -> Delete<Self::Document, Self::Partition> {
        Delete::new(DocumentAddress::new(self.to_id(), self.partition()))
    }
}

/// A stored document with the properties that the service adds.
#[derive(Clone, Debug)]
pub struct Stored<T> {
    /// The stored id. Equals the id of the document's key unless another program wrote the
    /// document.
    pub id: ItemId,
    /// The document.
    pub document: T,
    /// The version.
    pub etag: ETag,
    /// The service's time of the last write, in whole seconds.
    pub timestamp: Timestamp,
}

impl<T> Deref for Stored<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.document
    }
}

impl<T> Stored<T> {
    /// Converts the document and keeps the other properties.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Stored<U> {
        Stored {
            id: self.id,
            document: convert(self.document),
            etag: self.etag,
            timestamp: self.timestamp,
        }
    }
}
