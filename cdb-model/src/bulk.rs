//! Operations that travel together and have nothing else in common.

use std::marker::PhantomData;

use crate::batch::{BatchError, BatchOperation, OperationIndex};
use crate::codec::encode;
use crate::container::{Container, MemberOf};
use crate::document::{LocatedKey, Stored};
use crate::etag::ETag;
use crate::partition_key::PartitionKey;
use crate::patch::Patch;

/// One operation of a bulk, with the partition it is for.
///
/// ```
/// use cdb_model::{BatchOperation, BulkBatch, BulkOperation, PartitionKey};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Shop, order};
///
/// let mut bulk = BulkBatch::<Shop>::new();
/// bulk.create(&order(7))?;
/// let first: &BulkOperation = &bulk.operations()[0]; // as `ContainerClient::execute_bulk` reports it
/// assert_eq!(first.partition_key, PartitionKey::from("ada"));
/// assert!(matches!(first.operation, BatchOperation::Create { .. }));
/// # Ok::<(), cdb_model::BatchError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BulkOperation {
    /// Its partition.
    pub partition_key: PartitionKey,
    /// What to do.
    pub operation: BatchOperation,
}

/// Operations that have nothing to do with each other: any number, any partitions, each succeeds or fails alone.
///
/// They travel together, up to 100 per request and physical partition, and that is all they share.
///
/// ```
/// use cdb_model::BulkBatch;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop, order};
///
/// let mut bulk = BulkBatch::<Shop>::new();
/// for number in 0..1_000 {
///     let customer_id = format!("customer-{}", number % 10);
///     bulk.upsert(&Order { customer_id, ..order(number) })?;
/// }
/// assert_eq!(bulk.len(), 1_000); // sent by `ContainerClient::execute_bulk`
/// # Ok::<(), cdb_model::BatchError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BulkBatch<C> {
    operations: Vec<BulkOperation>,
    marker: PhantomData<fn() -> C>,
}

impl<C: Container> Default for BulkBatch<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Container> BulkBatch<C> {
    /// No operations yet.
    pub fn new() -> Self {
        Self {
            operations: Vec::new(),
            marker: PhantomData,
        }
    }

    /// Its operations.
    pub fn operations(&self) -> &[BulkOperation] {
        &self.operations
    }

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Stores a document that is not there.
    ///
    /// # Errors
    /// When the document cannot be stored.
    pub fn create<D: MemberOf<C>>(&mut self, document: &D) -> Result<OperationIndex, BatchError> {
        let resource_body = encode::<C, D>(document)?.json;
        let operation = BatchOperation::Create { resource_body };
        Ok(self.push(document.partition_key(), operation))
    }

    /// Stores a document, there or not, whoever wrote it last.
    ///
    /// # Errors
    /// When the document cannot be stored.
    pub fn upsert<D: MemberOf<C>>(&mut self, document: &D) -> Result<OperationIndex, BatchError> {
        let operation = BatchOperation::Upsert {
            resource_body: encode::<C, D>(document)?.json,
            if_match: None,
        };
        Ok(self.push(document.partition_key(), operation))
    }

    /// Changes a document of the version `etag`.
    ///
    /// # Errors
    /// When the key has no id or the patch cannot be sent.
    pub fn patch_if_match<K: LocatedKey>(
        &mut self,
        key: &K,
        patch: &Patch<K::Document>,
        etag: &ETag,
    ) -> Result<OperationIndex, BatchError>
    where
        K::Document: MemberOf<C>,
    {
        let operation = BatchOperation::Patch {
            id: key.to_id()?,
            resource_body: patch.body()?,
            if_match: Some(etag.clone()),
        };
        Ok(self.push(key.partition_key(), operation))
    }

    /// Changes a document under the id and version that it was read with, whichever program chose the id.
    ///
    /// # Errors
    /// When the patch cannot be sent.
    pub fn patch_stored<D: MemberOf<C>>(
        &mut self,
        stored: &Stored<D>,
        patch: &Patch<D>,
    ) -> Result<OperationIndex, BatchError> {
        let operation = BatchOperation::Patch {
            id: stored.id.clone(),
            resource_body: patch.body()?,
            if_match: Some(stored.etag.clone()),
        };
        Ok(self.push(stored.document.partition_key(), operation))
    }

    /// Deletes a document.
    ///
    /// # Errors
    /// When the key has no id.
    pub fn delete<K: LocatedKey>(&mut self, key: &K) -> Result<OperationIndex, BatchError>
    where
        K::Document: MemberOf<C>,
    {
        let operation = BatchOperation::Delete {
            id: key.to_id()?,
            if_match: None,
        };
        Ok(self.push(key.partition_key(), operation))
    }

    /// Deletes a document under the id and version that it was read with, whichever program chose the id.
    pub fn delete_stored<D: MemberOf<C>>(&mut self, stored: &Stored<D>) -> OperationIndex {
        let operation = BatchOperation::Delete {
            id: stored.id.clone(),
            if_match: Some(stored.etag.clone()),
        };
        self.push(stored.document.partition_key(), operation)
    }

    fn push(&mut self, partition_key: PartitionKey, operation: BatchOperation) -> OperationIndex {
        self.operations.push(BulkOperation {
            partition_key,
            operation,
        });
        OperationIndex::after(self.operations.len() - 1)
    }
}
