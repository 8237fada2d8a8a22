//! Bulks: independent operations that are sent together.

use std::borrow::Cow;
use std::marker::PhantomData;

use derive_where::derive_where;

use super::batch::{BatchError, OperationIndex};
use super::prepare::{Operation, PreparedOperation};
use crate::container::{Container, MemberOf};
use crate::document::KnownPartition;
use crate::value::Timestamp;

/// Independent operations on any partitions, in any number. Each succeeds or fails alone.
///
/// `ContainerClient::execute_bulk` sends up to 100 of them per request and physical partition.
#[derive_where(Clone, Debug, Default)]
pub struct BulkBatch<C> {
    operations: Vec<PreparedOperation>,
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

    /// Adds an operation. Returns its index in the bulk.
    ///
    /// # Errors
    /// When the document, the key or the patch cannot be sent. The bulk is unchanged then.
    pub fn add<O: Operation>(&mut self, operation: O) -> Result<OperationIndex, BatchError>
    where
        O::Document: MemberOf<C>,
        O::Partition: KnownPartition,
    {
        let PreparedOperation {
            id,
            partition,
            operation,
            times,
        } = operation.prepare::<C>()?;
        self.operations.push(PreparedOperation {
            id,
            partition: partition.into_key(),
            operation,
            times,
        });
        Ok(OperationIndex::after(self.operations.len() - 1))
    }

    /// Returns the operations. `now` is the time of the write, for the fields
    /// `#[document(created_at)]` and `#[document(updated_at)]`.
    pub fn operations_at(&self, now: Timestamp) -> Cow<'_, [PreparedOperation]> {
        if self.operations.iter().all(|known| known.times.is_none()) {
            return Cow::Borrowed(&self.operations);
        }
        let known = self.operations.iter().cloned();
        Cow::Owned(known.map(|operation| operation.written_at(now)).collect())
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether the bulk has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}
