//! What names one document.

use crate::codec_error::EncodeError;
use crate::document::{Document, DocumentKey, Stored};
use crate::operation::{Address, Create, Delete, Read, Replace, Upsert, WholeDocument};
use crate::partition::Partition;
use crate::partition_key::PartitionKey;
use crate::unreadable::Location;
use crate::write_mark::WriteMark;

/// What names one document: a reference to its key, to what was read, or to an [`Address`].
pub trait Target {
    /// The document type.
    type Document: Document;
    /// Whether the target names the partition.
    type Partition: Partition;

    /// Returns the address. That of a stored document requires its version.
    fn address(self) -> Address<Self::Document, Self::Partition>;
}

impl<K: DocumentKey> Target for &K {
    type Document = K::Document;
    type Partition = K::Partition;

    fn address(self) -> Address<K::Document, K::Partition> {
        Address::new(self.to_id(), self.partition())
    }
}

impl<D: Document> Target for &Stored<D> {
    type Document = D;
    type Partition = PartitionKey;

    fn address(self) -> Address<D> {
        let address = Address::new(Ok(self.id.clone()), self.document.partition_key());
        address.if_match(&self.etag)
    }
}

impl<D: Document, P: Partition> Target for Address<D, P> {
    type Document = D;
    type Partition = P;

    fn address(self) -> Self {
        self
    }
}

impl<D: Document, P: Partition> Target for &Address<D, P> {
    type Document = D;
    type Partition = P;

    fn address(self) -> Address<D, P> {
        self.clone()
    }
}

impl Location {
    /// Returns the address of the found version, whose document is taken for a `D`.
    pub fn address<D: Document>(&self) -> Address<D> {
        let address = Address::new(Ok(self.id.clone()), self.partition_key.clone());
        address.if_match(&self.etag)
    }
}

impl<D: Document> Stored<D> {
    /// Replaces exactly this version with the document as it is now, by its stored id.
    pub fn replace(&self) -> Replace<D> {
        Replace::new(self.address(), self.document.encode_fields())
    }

    /// Deletes exactly this version.
    pub fn delete(&self) -> Delete<D> {
        Delete::new(self.address())
    }
}

impl<D: Document, P: Partition> Read<D, P> {
    /// Creates the operation.
    pub fn new(target: impl Target<Document = D, Partition = P>) -> Self {
        Self(target.address())
    }
}

impl<D: Document> WholeDocument<D> {
    fn document(&self) -> Result<D, EncodeError> {
        let read = D::field_codec().read(self.fields.as_ref().map_err(Clone::clone)?);
        read.map_err(|error| EncodeError::Serialize {
            document: D::SHAPE.name,
            reason: format!("its own JSON cannot be read: {error}"),
        })
    }
}

macro_rules! whole_documents {
    ($($operation:ident)*) => {$(
        impl<D: Document> $operation<D> {
            /// Returns the document that is written.
            ///
            /// # Errors
            /// When the document cannot be stored as JSON, or not be read from it.
            pub fn document(&self) -> Result<D, EncodeError> {
                self.0.document()
            }

            /// Stores this mark with the document, which proves that the write took effect.
            pub fn marked(mut self, mark: &WriteMark) -> Self {
                self.0.mark = Some(mark.clone());
                self
            }

            /// Returns where the document is written, and the required version.
            pub fn address(&self) -> &Address<D> {
                &self.0.address
            }
        }
    )*};
}

whole_documents!(Create Upsert Replace);
