//! Operations in the form that a container stores.

use super::batch_operation::BatchOperation;
use super::patch::{Patch, PatchError};
use crate::container::{Container, MemberOf};
use crate::document::{
    Create, Delete, Document, DocumentAddress, ETag, EncodeError, Partition, Read, Replace, Upsert,
    WholeDocument,
};
use crate::stored::{Encoded, LATER, TimeSlots};
use crate::value::{IdError, ItemId, PartitionKey, Timestamp};

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
    /// A read in a batch requires a version. The service commits the batch whatever the version is
    /// (azure-cosmos-dotnet-v3#1581).
    #[error(
        "the service ignores the version that the read of `{id}` requires in a batch; read it `unconditional()`, and require the version of a write"
    )]
    ConditionalRead {
        /// The id.
        id: ItemId,
    },
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

impl<D: Document> WholeDocument<D> {
    fn prepare<C: Container>(
        self,
        operation: impl FnOnce(&ItemId, Encoded, Option<ETag>) -> BatchOperation,
    ) -> Result<PreparedOperation, OperationError>
    where
        D: MemberOf<C>,
    {
        let mark = self.mark.as_ref();
        let encoded = Encoded::new::<C, D>(self.address.id?, self.fields?, mark, LATER)?;
        let (id, times) = (encoded.id.clone(), encoded.times.clone());
        Ok(PreparedOperation {
            operation: operation(&id, encoded, self.address.if_match),
            partition: self.address.partition,
            id,
            times,
        })
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
        if self.0.if_match.is_some() {
            return Err(OperationError::ConditionalRead { id });
        }
        Ok(PreparedOperation {
            operation: BatchOperation::Read { id: id.clone() },
            id,
            partition: self.0.partition,
            times: TimeSlots::None,
        })
    }
}

impl<D: Document, P: Partition> Operation for Patch<D, DocumentAddress<D, P>> {
    type Document = D;
    type Partition = P;

    fn prepare<C: Container>(self) -> Result<PreparedOperation<P>, OperationError>
    where
        D: MemberOf<C>,
    {
        let resource_body = self.body(LATER)?;
        let (address, _) = self.into_parts();
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
