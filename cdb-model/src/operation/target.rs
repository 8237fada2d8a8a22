//! What names one document.

use crate::document::{
    Create, Delete, Document, DocumentAddress, DocumentKey, EncodeError, Partition, Read, Replace,
    Stored, Upsert, WholeDocument, WriteMark,
};
use crate::stored::Location;
use crate::value::{ItemId, PartitionKey};

/// What names one document: a reference to its key, to what was read, or to a [`DocumentAddress`].
pub trait Target {
    /// The document type.
    type Document: Document;
    /// Whether the target names the partition.
    type Partition: Partition;

    /// Returns the address. That of a stored document requires its version.
    fn address(self) -> DocumentAddress<Self::Document, Self::Partition>;
}

impl<K: DocumentKey> Target for &K {
    type Document = K::Document;
    type Partition = K::Partition;

    fn address(self) -> DocumentAddress<K::Document, K::Partition> {
        DocumentAddress::new(self.to_id(), self.partition())
    }
}

impl<D: Document> Target for &Stored<D> {
    type Document = D;
    type Partition = PartitionKey;

    fn address(self) -> DocumentAddress<D> {
        let address = DocumentAddress::new(Ok(self.id.clone()), self.document.partition_key());
        address.if_match(&self.etag)
    }
}

impl<D: Document, P: Partition> Target for DocumentAddress<D, P> {
    type Document = D;
    type Partition = P;

    fn address(self) -> Self {
        self
    }
}

impl<D: Document, P: Partition> Target for &DocumentAddress<D, P> {
    type Document = D;
    type Partition = P;

    fn address(self) -> DocumentAddress<D, P> {
        self.clone()
    }
}

/// What must not change between a read and its replacement.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Identity {
    /// Whether another program has stored the document under an id that is not that of its key.
    differs: bool,
    partition: PartitionKey,
}

impl Location {
    /// Returns the address of the found version, whose document is taken for a `D`.
    pub fn address<D: Document>(&self) -> DocumentAddress<D> {
        let address = DocumentAddress::new(Ok(self.id.clone()), self.partition_key.clone());
        address.if_match(&self.etag)
    }
}

impl<D: Document> Stored<D> {
    /// Replaces exactly this version with the document as it is now, by its stored id. Fails when the
    /// fields of the id have changed. A document that another program has stored under a foreign id is
    /// replaced.
    pub fn replace(&self) -> Replace<D> {
        let fields = match self.other_key() {
            // The stored id is that of another key of this type.
            Some(key) if D::Key::parse(self.id.as_str()).is_ok() => Err(self.changed_key(key)),
            _ => self.document.encode_fields(),
        };
        Replace::new(self.address(), fields)
    }

    /// Returns what must not change between a read and its replacement.
    #[doc(hidden)]
    pub fn identity(&self) -> Identity {
        Identity {
            differs: self.other_key().is_some(),
            partition: self.document.partition_key(),
        }
    }

    /// Replaces exactly this version, which had this identity when it was read.
    #[doc(hidden)]
    pub fn replace_read(&self, read: &Identity) -> Replace<D> {
        let partition = self.document.partition_key();
        let fields = match self.other_key() {
            Some(key) if !read.differs => Err(self.changed_key(key)),
            _ if partition != read.partition => Err(EncodeError::OtherPartition {
                document: D::SHAPE.name,
                partition: read.partition.clone(),
                found: partition,
            }),
            _ => self.document.encode_fields(),
        };
        Replace::new(self.address(), fields)
    }

    /// Returns the id of the document's key, if the stored id is another one.
    fn other_key(&self) -> Option<ItemId> {
        let key = self.document.key().to_id();
        key.ok().filter(|key| *key != self.id)
    }

    fn changed_key(&self, key: ItemId) -> EncodeError {
        EncodeError::OtherKey {
            document: D::SHAPE.name,
            id: self.id.clone(),
            key,
        }
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
            pub fn address(&self) -> &DocumentAddress<D> {
                &self.0.address
            }
        }
    )*};
}

whole_documents!(Create Upsert Replace);
