//! Operations as values: what happens to one document, and under which condition.
//!
//! A value has no lifetime and no container. It carries its errors until it is sent, so building one
//! cannot fail. `ContainerClient::run` sends one operation, a [`Batch`](crate::Batch) several of one
//! partition atomically, a [`BulkBatch`](crate::operation::BulkBatch) any number of any partitions.

use std::marker::PhantomData;

use derive_where::derive_where;

use super::error::EncodeError;
use super::etag::ETag;
use super::partition::KnownPartition;
use super::write_mark::WriteMark;
use crate::value::{IdError, ItemId, PartitionKey};

/// The location of a document of type `D`, and the version that an operation requires.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_model::document::{DocumentAddress, Delete};
/// use shop::{Order, OrderKey};
///
/// let order: DocumentAddress<Order> = OrderKey::new(7).in_partition("ada");
/// let cancellation: Delete<Order> = order.delete();
/// ```
#[derive_where(Clone, Debug; P)]
pub struct DocumentAddress<D, P = PartitionKey> {
    pub(crate) id: Result<ItemId, IdError>,
    pub(crate) partition: P,
    pub(crate) if_match: Option<ETag>,
    marker: PhantomData<fn() -> D>,
}

impl<D, P> DocumentAddress<D, P> {
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

    /// Returns the version that the operation requires.
    pub fn required_version(&self) -> Option<&ETag> {
        self.if_match.as_ref()
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

    /// Returns the address with the partition key.
    pub fn into_known(self) -> DocumentAddress<D>
    where
        P: KnownPartition,
    {
        DocumentAddress {
            id: self.id,
            partition: self.partition.into_key(),
            if_match: self.if_match,
            marker: PhantomData,
        }
    }

    /// Deletes the document.
    pub fn delete(self) -> Delete<D, P> {
        Delete::new(self)
    }
}

/// A write of a whole document.
#[derive_where(Clone, Debug)]
pub(crate) struct WholeDocument<D> {
    pub(crate) address: DocumentAddress<D>,
    pub(crate) fields: Result<String, EncodeError>,
    pub(crate) mark: Option<WriteMark>,
}

impl<D> WholeDocument<D> {
    fn new(address: DocumentAddress<D>, fields: Result<String, EncodeError>) -> Self {
        Self {
            address,
            fields,
            mark: None,
        }
    }
}

/// Creates a document. Fails with 409 if an item has its id or unique key. Made by
/// [`Document::create`](crate::Document::create).
#[derive_where(Clone, Debug)]
#[must_use = "an operation does nothing until it is sent"]
pub struct Create<D>(pub(crate) WholeDocument<D>);

/// Creates or replaces a document. Made by [`Document::upsert`](crate::Document::upsert).
#[derive_where(Clone, Debug)]
#[must_use = "an operation does nothing until it is sent"]
pub struct Upsert<D>(pub(crate) WholeDocument<D>);

/// Replaces an existing document. Fails with 404 if it does not exist. Made by
/// [`Document::replace`](crate::Document::replace), and for the version that was read by
/// [`Stored::replace`](crate::Stored::replace).
#[derive_where(Clone, Debug)]
#[must_use = "an operation does nothing until it is sent"]
pub struct Replace<D>(pub(crate) WholeDocument<D>);

/// Deletes a document. Fails with 404 if it does not exist. Made by `key.delete()`, and for the
/// version that was read by [`Stored::delete`](crate::Stored::delete).
#[derive_where(Clone, Debug; P)]
#[must_use = "an operation does nothing until it is sent"]
pub struct Delete<D, P = PartitionKey>(pub(crate) DocumentAddress<D, P>);

/// Reads a document in a batch, after the operations before. A missing document fails the batch.
/// `ContainerClient::read` reads one document alone.
#[derive_where(Clone, Debug; P)]
#[must_use = "an operation does nothing until it is sent"]
pub struct Read<D, P = PartitionKey>(pub(crate) DocumentAddress<D, P>);

impl<D> Create<D> {
    pub(crate) fn new(address: DocumentAddress<D>, fields: Result<String, EncodeError>) -> Self {
        Self(WholeDocument::new(address, fields))
    }
}

impl<D> Upsert<D> {
    pub(crate) fn new(address: DocumentAddress<D>, fields: Result<String, EncodeError>) -> Self {
        Self(WholeDocument::new(address, fields))
    }

    /// Requires the version `etag` of an existing document; without a document, one is created.
    /// Another version fails with 412.
    pub fn if_match(mut self, etag: &ETag) -> Self {
        self.0.address = self.0.address.if_match(etag);
        self
    }
}

impl<D> Replace<D> {
    pub(crate) fn new(address: DocumentAddress<D>, fields: Result<String, EncodeError>) -> Self {
        Self(WholeDocument::new(address, fields))
    }

    /// Requires the version `etag`. Another version fails with 412.
    pub fn if_match(mut self, etag: &ETag) -> Self {
        self.0.address = self.0.address.if_match(etag);
        self
    }

    /// Requires no version.
    pub fn unconditional(mut self) -> Self {
        self.0.address = self.0.address.unconditional();
        self
    }
}

impl<D, P> Delete<D, P> {
    pub(crate) fn new(address: DocumentAddress<D, P>) -> Self {
        Self(address)
    }

    /// Returns the address of the document, and the required version.
    pub fn address(&self) -> &DocumentAddress<D, P> {
        &self.0
    }

    /// Requires the version `etag`. Another version fails with 412.
    pub fn if_match(self, etag: &ETag) -> Self {
        Self(self.0.if_match(etag))
    }

    /// Requires no version.
    pub fn unconditional(self) -> Self {
        Self(self.0.unconditional())
    }
}
