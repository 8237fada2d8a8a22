//! Bulks: independent operations that are sent together.

use std::borrow::Cow;
use std::marker::PhantomData;

use derive_where::derive_where;

use crate::batch::{BatchError, BatchOperation, OperationIndex};
use crate::codec::{Encoded, encode};
use crate::container::{Container, MemberOf};
use crate::document::{Document as _, LocatedKey, Stored};
use crate::etag::ETag;
use crate::partition_key::PartitionKey;
use crate::patch::Patch;
use crate::timestamp::Timestamp;
use crate::write_times::{LATER, TimeSlots};

/// One operation of a bulk, with its partition key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BulkOperation {
    /// The partition key.
    pub partition_key: PartitionKey,
    /// The operation.
    pub operation: BatchOperation,
    times: TimeSlots,
}

/// Independent operations on any partitions, in any number. Each succeeds or fails alone.
///
/// `ContainerClient::execute_bulk` sends up to 100 of them per request and physical partition.
#[derive_where(Clone, Debug, Default)]
pub struct BulkBatch<C> {
    operations: Vec<BulkOperation>,
    marker: PhantomData<fn() -> C>,
}

impl<C: Container> BulkBatch<C> {
    /// Creates an empty bulk.
    pub fn new() -> Self {
        Self {
            operations: Vec::new(),
            marker: PhantomData,
        }
    }

    /// Returns the operations. `now` is the time of the write, for the fields
    /// `#[document(created_at)]` and `#[document(updated_at)]`.
    pub fn operations_at(&self, now: Timestamp) -> Cow<'_, [BulkOperation]> {
        if self.operations.iter().all(|known| known.times.is_none()) {
            return Cow::Borrowed(&self.operations);
        }
        let mut operations = self.operations.clone();
        for BulkOperation {
            operation, times, ..
        } in &mut operations
        {
            operation.set_time(times, now);
        }
        Cow::Owned(operations)
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether the bulk has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Creates a document.
    ///
    /// # Errors
    /// When the document cannot be encoded.
    pub fn create<D: MemberOf<C>>(&mut self, document: &D) -> Result<OperationIndex, BatchError> {
        let Encoded { json, times, .. } = encode::<C, D>(document, LATER)?;
        let operation = BatchOperation::Create {
            resource_body: json,
        };
        Ok(self.push(document.partition_key(), operation, times))
    }

    /// Creates or replaces a document, whatever its version.
    ///
    /// # Errors
    /// When the document cannot be encoded.
    pub fn upsert<D: MemberOf<C>>(&mut self, document: &D) -> Result<OperationIndex, BatchError> {
        let Encoded { json, times, .. } = encode::<C, D>(document, LATER)?;
        let operation = BatchOperation::Upsert {
            resource_body: json,
            if_match: None,
        };
        Ok(self.push(document.partition_key(), operation, times))
    }

    /// Patches the version `etag` of a document.
    ///
    /// # Errors
    /// When the key has no valid id or the patch cannot be sent.
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
            resource_body: patch.body(LATER)?,
            if_match: Some(etag.clone()),
        };
        let times = TimeSlots::of_patch(K::Document::SHAPE);
        Ok(self.push(key.partition_key(), operation, times))
    }

    /// Patches exactly this stored version, by its stored id.
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
            resource_body: patch.body(LATER)?,
            if_match: Some(stored.etag.clone()),
        };
        let times = TimeSlots::of_patch(D::SHAPE);
        Ok(self.push(stored.document.partition_key(), operation, times))
    }

    /// Deletes a document.
    ///
    /// # Errors
    /// When the key has no valid id.
    pub fn delete<K: LocatedKey>(&mut self, key: &K) -> Result<OperationIndex, BatchError>
    where
        K::Document: MemberOf<C>,
    {
        let operation = BatchOperation::Delete {
            id: key.to_id()?,
            if_match: None,
        };
        Ok(self.push(key.partition_key(), operation, TimeSlots::None))
    }

    /// Deletes exactly this stored version, by its stored id.
    pub fn delete_stored<D: MemberOf<C>>(&mut self, stored: &Stored<D>) -> OperationIndex {
        let operation = BatchOperation::Delete {
            id: stored.id.clone(),
            if_match: Some(stored.etag.clone()),
        };
        self.push(stored.document.partition_key(), operation, TimeSlots::None)
    }

    fn push(
        &mut self,
        partition_key: PartitionKey,
        operation: BatchOperation,
        times: TimeSlots,
    ) -> OperationIndex {
        self.operations.push(BulkOperation {
            partition_key,
            operation,
            times,
        });
        OperationIndex::after(self.operations.len() - 1)
    }
}
