//! Transactional batches: atomic operations on one partition, within the service's limits.
//!
//! A batch that exceeds a limit is an error. It is never split into two batches, because that would
//! lose its atomicity.

use std::borrow::Cow;
use std::marker::PhantomData;

use derive_where::derive_where;

use super::batch_operation::BatchOperation;
use super::prepare::{Operation, OperationError};
use crate::container::{Container, Extends, MemberOf};
use crate::document::Partition as _;
use crate::limits::{MAX_BATCH_OPERATIONS, MAX_REQUEST_BYTES};
use crate::stored::TimeSlots;
use crate::value::{IdError, ItemId, PartitionKey, Timestamp};

/// Why an operation was not added to a batch. The batch is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The batch has as many operations as the service allows.
    #[error("the service allows {MAX_BATCH_OPERATIONS} operations per batch")]
    Full,
    /// The batch would have more bytes than the service allows.
    #[error("the batch would have {bytes} bytes, the service allows {MAX_REQUEST_BYTES}")]
    TooLarge {
        /// The bytes of the batch with the operation.
        bytes: usize,
    },
    /// The document belongs to another partition.
    #[error("the batch is for partition {expected}, but the document belongs to {found}")]
    OtherPartition {
        /// The partition of the batch.
        expected: PartitionKey,
        /// The partition of the document.
        found: PartitionKey,
    },
    /// The operation cannot be sent.
    #[error(transparent)]
    Operation(#[from] OperationError),
}

impl From<IdError> for BatchError {
    fn from(error: IdError) -> Self {
        Self::Operation(error.into())
    }
}

/// The index of an operation in its batch, and of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationIndex(usize);

impl OperationIndex {
    /// Returns the index of the next operation after so many.
    pub(crate) const fn after(operations: usize) -> Self {
        Self(operations)
    }

    /// Returns the index, counted from zero.
    pub const fn get(self) -> usize {
        self.0
    }
}

impl From<usize> for OperationIndex {
    fn from(index: usize) -> Self {
        Self(index)
    }
}

/// Operations on one partition of container `C` that are executed atomically.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_model::{Batch, Document as _};
/// use cdb_model::operation::BatchError;
/// use shop::{Order, OrderKey, Shop};
///
/// /// Moves an amount to a new order. `ContainerClient::execute` sends the batch.
/// fn transfer(from: u64, to: &Order) -> Result<Batch<Shop>, BatchError> {
///     let mut batch = Batch::new(to.customer_id.as_str());
///     batch.add(OrderKey::new(from).patch().set(Order::TOTAL_CENTS, 0))?;
///     batch.add(to.create())?;
///     Ok(batch)
/// }
/// ```
#[derive_where(Clone, Debug)]
pub struct Batch<C> {
    partition_key: PartitionKey,
    operations: Vec<BatchOperation>,
    ids: Vec<ItemId>,
    /// The operations that need the time of the write, by index.
    times: Vec<(usize, TimeSlots)>,
    bytes: usize,
    marker: PhantomData<fn() -> C>,
}

impl<C: Container> Batch<C> {
    /// Creates a batch for one partition.
    pub fn new(partition_key: impl Into<PartitionKey>) -> Self {
        Self {
            partition_key: partition_key.into(),
            operations: Vec::new(),
            ids: Vec::new(),
            times: Vec::new(),
            bytes: 2,
            marker: PhantomData,
        }
    }

    /// Returns the partition key.
    pub fn partition_key(&self) -> &PartitionKey {
        &self.partition_key
    }

    /// Returns the operations, which are sent as a JSON array. `now` is the time of the write, for
    /// the fields `#[document(created_at)]` and `#[document(updated_at)]`.
    pub fn operations_at(&self, now: Timestamp) -> Cow<'_, [BatchOperation]> {
        let mut operations = Cow::Borrowed(&*self.operations);
        for (index, times) in &self.times {
            operations.to_mut()[*index].set_time(times, now);
        }
        operations
    }

    /// Returns the id of the document of an operation.
    pub fn id(&self, index: OperationIndex) -> Option<&ItemId> {
        self.ids.get(index.0)
    }

    /// Returns the number of operations; the service allows 100.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether the batch has no operations. The service refuses such a batch.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the bytes of the request; the service allows 2 MB.
    pub fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an operation. Returns its index in the batch.
    ///
    /// # Errors
    /// See [`BatchError`]. The batch is unchanged then.
    pub fn add<O: Operation>(&mut self, operation: O) -> Result<OperationIndex, BatchError>
    where
        O::Document: MemberOf<C>,
    {
        let prepared = operation.prepare::<C>()?;
        if let Some(partition) = prepared.partition.known() {
            self.check_partition(partition)?;
        }
        self.push(prepared.id, prepared.operation, prepared.times)
    }

    /// Adds the operations of another batch of the same partition, whose container may extend this
    /// one.
    ///
    /// # Errors
    /// See [`BatchError`]. No operation is added then.
    pub fn append<B: Extends<C>>(&mut self, other: &Batch<B>) -> Result<(), BatchError> {
        self.check_partition(&other.partition_key)?;
        if self.len() + other.len() > MAX_BATCH_OPERATIONS {
            return Err(BatchError::Full);
        }
        // Both batches count their two brackets.
        let bytes = self.bytes + other.bytes - 2;
        if bytes > MAX_REQUEST_BYTES {
            return Err(BatchError::TooLarge { bytes });
        }
        self.bytes = bytes;
        let moved = other.times.iter().cloned();
        let moved = moved.map(|(index, times)| (self.operations.len() + index, times));
        self.times.extend(moved);
        self.operations.extend(other.operations.iter().cloned());
        self.ids.extend(other.ids.iter().cloned());
        Ok(())
    }

    fn check_partition(&self, found: &PartitionKey) -> Result<(), BatchError> {
        if *found == self.partition_key {
            return Ok(());
        }
        Err(BatchError::OtherPartition {
            expected: self.partition_key.clone(),
            found: found.clone(),
        })
    }

    fn push(
        &mut self,
        id: ItemId,
        operation: BatchOperation,
        times: TimeSlots,
    ) -> Result<OperationIndex, BatchError> {
        if self.operations.len() == MAX_BATCH_OPERATIONS {
            return Err(BatchError::Full);
        }
        let bytes = self.bytes + json_bytes(&operation) + 1;
        if bytes > MAX_REQUEST_BYTES {
            return Err(BatchError::TooLarge { bytes });
        }
        self.bytes = bytes;
        if !times.is_none() {
            self.times.push((self.operations.len(), times));
        }
        self.operations.push(operation);
        self.ids.push(id);
        Ok(OperationIndex(self.operations.len() - 1))
    }
}

/// Returns the bytes of an operation as JSON. An operation that cannot be serialized counts as too
/// large.
fn json_bytes(operation: &BatchOperation) -> usize {
    let mut counter = ByteCounter(0);
    match serde_json::to_writer(&mut counter, operation) {
        Ok(()) => counter.0,
        Err(_) => MAX_REQUEST_BYTES,
    }
}

struct ByteCounter(usize);

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
