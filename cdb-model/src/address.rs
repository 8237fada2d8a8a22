//! Where an operation takes place: a document's partition, its id, and the version that it must have.

use std::fmt;
use std::marker::PhantomData;

use derive_where::derive_where;

use crate::document::{Document, DocumentKey, Stored};
use crate::etag::ETag;
use crate::id::{IdError, ItemId};
use crate::operation::Delete;
use crate::partition_key::PartitionKey;
use crate::patch::Patch;
use crate::unreadable::Location;

/// The location of a document of type `D`, and the version that an operation requires.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_model::{Address, Delete, DocumentKey as _};
/// use shop::{Order, OrderKey};
///
/// let order: Address<Order> = OrderKey::new(7_u64).in_partition("ada");
/// let cancellation: Delete<Order> = order.delete();
/// ```
#[derive_where(Clone, Debug; P)]
pub struct Address<D, P = PartitionKey> {
    pub(crate) id: Result<ItemId, IdError>,
    pub(crate) partition: P,
    pub(crate) if_match: Option<ETag>,
    marker: PhantomData<fn() -> D>,
}

/// What is known of the partition of an operation: a [`PartitionKey`] or [`BatchPartition`].
pub trait Partition: Clone + fmt::Debug + Send + Sync + 'static + sealed::Sealed {
    /// Returns the partition key; `None` for that of the batch.
    fn known(&self) -> Option<&PartitionKey>;
}

/// The partition of the batch: the id pattern of the key does not contain the partition key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPartition;

impl Partition for PartitionKey {
    fn known(&self) -> Option<&PartitionKey> {
        Some(self)
    }
}

impl Partition for BatchPartition {
    fn known(&self) -> Option<&PartitionKey> {
        None
    }
}

/// A partition that needs no batch.
#[diagnostic::on_unimplemented(
    message = "the partition of this operation is not known",
    note = "the id pattern of the key does not contain the partition key; write `key.in_partition(…)`"
)]
pub trait KnownPartition: Partition {
    /// Returns the partition key.
    fn into_key(self) -> PartitionKey;
}

impl KnownPartition for PartitionKey {
    fn into_key(self) -> PartitionKey {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::PartitionKey {}
    impl Sealed for super::BatchPartition {}
}

/// What names one document: a reference to its key or to what was read, or an [`Address`].
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

impl Location {
    /// Returns the address of the found version, whose document is taken for a `D`.
    pub fn address<D: Document>(&self) -> Address<D> {
        let address = Address::new(Ok(self.id.clone()), self.partition_key.clone());
        address.if_match(&self.etag)
    }
}

impl<D: Document, P: Partition> Address<D, P> {
    pub(crate) fn new(id: Result<ItemId, IdError>, partition: P) -> Self {
        Self {
            id,
            partition,
            if_match: None,
            marker: PhantomData,
        }
    }

    /// Returns the id.
    ///
    /// # Errors
    /// When the key has no valid id.
    pub fn id(&self) -> Result<&ItemId, IdError> {
        self.id.as_ref().map_err(Clone::clone)
    }

    /// Returns what is known of the partition.
    pub fn partition(&self) -> &P {
        &self.partition
    }

    /// Requires this version. Otherwise the operation fails with 412.
    #[must_use]
    pub fn if_match(mut self, etag: &ETag) -> Self {
        self.if_match = Some(etag.clone());
        self
    }

    /// Requires no version.
    #[must_use]
    pub fn unconditional(mut self) -> Self {
        self.if_match = None;
        self
    }

    /// Patches the document: add the changes to the operation.
    pub fn patch(self) -> Patch<D, Self> {
        Patch::new().at(self)
    }

    /// Deletes the document.
    pub fn delete(self) -> Delete<D, P> {
        Delete::new(self)
    }
}
