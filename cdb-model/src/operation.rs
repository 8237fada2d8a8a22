//! Operations as values: what happens to one document, and under which condition.
//!
//! A value has no lifetime and no container. It carries its errors until it is sent, so building one
//! cannot fail. `ContainerClient::run` sends one operation, a [`Batch`](crate::Batch) several of one
//! partition atomically, a [`BulkBatch`](crate::BulkBatch) any number of any partitions.

use derive_where::derive_where;

use crate::address::{Address, Partition, Target};
use crate::batch::BatchOperation;
use crate::codec::{Encoded, encode_fields};
use crate::codec_error::EncodeError;
use crate::container::{Container, MemberOf};
use crate::document::Document;
use crate::etag::ETag;
use crate::id::{IdError, ItemId};
use crate::partition_key::PartitionKey;
use crate::patch::{Patch, PatchError};
use crate::timestamp::Timestamp;
use crate::write_times::{LATER, TimeSlots};

/// Why an operation cannot be sent.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The document cannot be stored.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The key has no valid id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The patch cannot be sent.
    #[error(transparent)]
    Patch(#[from] PatchError),
}

/// An operation on one document: [`Create`], [`Upsert`], [`Replace`], [`Patch`], [`Delete`] or
/// [`Read`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an operation",
    note = "`document.create()`, `stored.replace()`, `key.patch().set(…)` and `key.delete()` are operations"
)]
pub trait Operation {
    /// The type of the document.
    type Document: Document;
    /// What the operation knows of its partition.
    type Partition: Partition;

    /// Returns the operation in the form that container `C` stores.
    ///
    /// # Errors
    /// See [`OperationError`].
    fn prepare<C: Container>(self) -> Result<PreparedOperation<Self::Partition>, OperationError>
    where
        Self::Document: MemberOf<C>;
}

/// An operation in the service's form.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedOperation<P = PartitionKey> {
    /// The id of the document.
    pub id: ItemId,
    /// The partition.
    pub partition: P,
    /// The operation.
    pub operation: BatchOperation,
    pub(crate) times: TimeSlots,
}

impl<P> PreparedOperation<P> {
    /// Sets the time of the write, for the fields `#[document(created_at)]` and
    /// `#[document(updated_at)]`.
    #[must_use]
    pub fn written_at(mut self, now: Timestamp) -> Self {
        self.operation.set_time(&self.times, now);
        self
    }
}

/// A write of a whole document.
#[derive_where(Clone, Debug)]
struct WholeDocument<D> {
    address: Address<D>,
    fields: Result<String, EncodeError>,
}

impl<D: Document> WholeDocument<D> {
    fn of(document: &D) -> Self {
        Self::at(document.address(), document)
    }

    fn at(address: Address<D>, document: &D) -> Self {
        Self {
            address,
            fields: encode_fields(document),
        }
    }

    fn prepare<C: Container>(
        self,
        operation: impl FnOnce(&ItemId, Encoded, Option<ETag>) -> BatchOperation,
    ) -> Result<PreparedOperation, OperationError>
    where
        D: MemberOf<C>,
    {
        let encoded = Encoded::new::<C, D>(self.address.id?, self.fields?, LATER)?;
        let (id, times) = (encoded.id.clone(), encoded.times.clone());
        Ok(PreparedOperation {
            operation: operation(&id, encoded, self.address.if_match),
            partition: self.address.partition,
            id,
            times,
        })
    }
}

/// Creates a document. Fails with 409 if an item has its id or unique key. Made by
/// [`Document::create`].
#[derive_where(Clone, Debug)]
#[must_use = "an operation does nothing until it is sent"]
pub struct Create<D>(WholeDocument<D>);

/// Creates or replaces a document. Made by [`Document::upsert`].
#[derive_where(Clone, Debug)]
#[must_use = "an operation does nothing until it is sent"]
pub struct Upsert<D>(WholeDocument<D>);

/// Replaces an existing document. Fails with 404 if it does not exist. Made by [`Document::replace`],
/// and for the version that was read by [`Stored::replace`](crate::Stored::replace).
#[derive_where(Clone, Debug)]
#[must_use = "an operation does nothing until it is sent"]
pub struct Replace<D>(WholeDocument<D>);

/// Deletes a document. Fails with 404 if it does not exist. Made by `key.delete()`, and for the
/// version that was read by [`Stored::delete`](crate::Stored::delete).
#[derive_where(Clone, Debug; P)]
#[must_use = "an operation does nothing until it is sent"]
pub struct Delete<D, P = PartitionKey>(Address<D, P>);

/// Reads a document in a batch, after the operations before. A missing document fails the batch.
/// `ContainerClient::read` reads one document alone.
#[derive_where(Clone, Debug; P)]
#[must_use = "an operation does nothing until it is sent"]
pub struct Read<D, P = PartitionKey>(Address<D, P>);

impl<D: Document> Create<D> {
    pub(crate) fn new(document: &D) -> Self {
        Self(WholeDocument::of(document))
    }
}

impl<D: Document> Upsert<D> {
    pub(crate) fn new(document: &D) -> Self {
        Self(WholeDocument::of(document))
    }

    /// Requires the version `etag` of an existing document; without a document, one is created.
    /// Another version fails with 412.
    pub fn if_match(mut self, etag: &ETag) -> Self {
        self.0.address = self.0.address.if_match(etag);
        self
    }
}

impl<D: Document> Replace<D> {
    pub(crate) fn new(document: &D) -> Self {
        Self(WholeDocument::of(document))
    }

    pub(crate) fn at(address: Address<D>, document: &D) -> Self {
        Self(WholeDocument::at(address, document))
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

impl<D: Document, P: Partition> Delete<D, P> {
    pub(crate) fn new(address: Address<D, P>) -> Self {
        Self(address)
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

impl<D: Document, P: Partition> Read<D, P> {
    /// Creates the operation.
    pub fn new(target: impl Target<Document = D, Partition = P>) -> Self {
        Self(target.address())
    }
}

impl<D: Document> Operation for Create<D> {
    type Document = D;
    type Partition = PartitionKey;

    fn prepare<C: Container>(self) -> Result<PreparedOperation, OperationError>
    where
        D: MemberOf<C>,
    {
        self.0.prepare::<C>(|_, encoded, _| BatchOperation::Create {
            resource_body: encoded.json,
        })
    }
}

impl<D: Document> Operation for Upsert<D> {
    type Document = D;
    type Partition = PartitionKey;

    fn prepare<C: Container>(self) -> Result<PreparedOperation, OperationError>
    where
        D: MemberOf<C>,
    {
        self.0
            .prepare::<C>(|_, encoded, if_match| BatchOperation::Upsert {
                resource_body: encoded.json,
                if_match,
            })
    }
}

impl<D: Document> Operation for Replace<D> {
    type Document = D;
    type Partition = PartitionKey;

    fn prepare<C: Container>(self) -> Result<PreparedOperation, OperationError>
    where
        D: MemberOf<C>,
    {
        self.0
            .prepare::<C>(|id, encoded, if_match| BatchOperation::Replace {
                id: id.clone(),
                resource_body: encoded.json,
                if_match,
            })
    }
}

impl<D: Document, P: Partition> Operation for Delete<D, P> {
    type Document = D;
    type Partition = P;

    fn prepare<C: Container>(self) -> Result<PreparedOperation<P>, OperationError>
    where
        D: MemberOf<C>,
    {
        let id = self.0.id?;
        let operation = BatchOperation::Delete {
            id: id.clone(),
            if_match: self.0.if_match,
        };
        Ok(PreparedOperation {
            id,
            partition: self.0.partition,
            operation,
            times: TimeSlots::None,
        })
    }
}

impl<D: Document, P: Partition> Operation for Read<D, P> {
    type Document = D;
    type Partition = P;

    fn prepare<C: Container>(self) -> Result<PreparedOperation<P>, OperationError>
    where
        D: MemberOf<C>,
    {
        let id = self.0.id?;
        Ok(PreparedOperation {
            operation: BatchOperation::Read { id: id.clone() },
            id,
            partition: self.0.partition,
            times: TimeSlots::None,
        })
    }
}

impl<D: Document, P: Partition> Operation for Patch<D, Address<D, P>> {
    type Document = D;
    type Partition = P;

    fn prepare<C: Container>(self) -> Result<PreparedOperation<P>, OperationError>
    where
        D: MemberOf<C>,
    {
        let resource_body = self.body(LATER)?;
        let address = self.into_target();
        let id = address.id?;
        Ok(PreparedOperation {
            operation: BatchOperation::Patch {
                id: id.clone(),
                resource_body,
                if_match: address.if_match,
            },
            id,
            partition: address.partition,
            times: TimeSlots::of_patch(D::SHAPE),
        })
    }
}
