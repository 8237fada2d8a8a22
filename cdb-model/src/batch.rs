//! Transactional batches: atomic operations on one partition, within the service's limits.
//!
//! A batch that exceeds a limit is an error. It is never split into two batches, because that would
//! lose its atomicity.

use std::borrow::Cow;
use std::marker::PhantomData;

use derive_where::derive_where;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::codec::{Encoded, encode, encode_stored};
use crate::codec_error::EncodeError;
use crate::container::{Container, Extends, MemberOf};
use crate::document::{Document, DocumentKey, Stored};
use crate::etag::ETag;
use crate::id::{IdError, ItemId};
use crate::limits::{MAX_BATCH_OPERATIONS, MAX_REQUEST_BYTES};
use crate::partition_key::PartitionKey;
use crate::patch::{Patch, PatchBody, PatchError, PatchOperation};
use crate::timestamp::Timestamp;
use crate::unreadable::Location;
use crate::write_times::{LATER, TimeSlots};

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

/// One operation in the service's form.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "operationType", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum BatchOperation {
    /// Creates a document.
    Create {
        /// The document.
        resource_body: Box<RawValue>,
    },
    /// Creates or replaces a document.
    Upsert {
        /// The document.
        resource_body: Box<RawValue>,
        /// The required version.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Replaces a document.
    Replace {
        /// The id.
        id: ItemId,
        /// The document.
        resource_body: Box<RawValue>,
        /// The required version.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Patches a document.
    Patch {
        /// The id.
        id: ItemId,
        /// The changes.
        resource_body: PatchBody,
        /// The required version.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Deletes a document. A missing document fails the batch.
    Delete {
        /// The id.
        id: ItemId,
        /// The required version.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Reads a document. A missing document fails the batch.
    Read {
        /// The id.
        id: ItemId,
    },
}

impl BatchOperation {
    /// Sets the time of the write.
    pub(crate) fn set_time(&mut self, times: &TimeSlots, now: Timestamp) {
        match self {
            Self::Create { resource_body }
            | Self::Upsert { resource_body, .. }
            | Self::Replace { resource_body, .. } => {
                if let Some(json) = times.replaced(resource_body, now) {
                    *resource_body = json;
                }
            }
            Self::Patch { resource_body, .. } => {
                if let (TimeSlots::LastChange, Some(PatchOperation::Set { value, .. })) =
                    (times, resource_body.operations.last_mut())
                {
                    *value = now.as_millis().into();
                }
            }
            Self::Delete { .. } | Self::Read { .. } => {}
        }
    }
}

/// Operations on one partition of container `C` that are executed atomically.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_model::{Batch, BatchError, Patch};
/// use shop::{Order, OrderKey, Shop};
///
/// /// Moves an amount to a new order. `ContainerClient::execute` sends the batch.
/// fn transfer(from: u64, to: &Order) -> Result<Batch<Shop>, BatchError> {
///     let mut batch = Batch::new(to.customer_id.as_str());
///     batch.patch(&OrderKey::new(from), &Patch::new().set(Order::TOTAL_CENTS, 0))?;
///     batch.create(to)?;
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

    /// Creates a document.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn create<D: MemberOf<C>>(&mut self, document: &D) -> Result<OperationIndex, BatchError> {
        self.push_document(document, |resource_body| BatchOperation::Create {
            resource_body,
        })
    }

    /// Creates or replaces a document, whatever its version.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn upsert<D: MemberOf<C>>(&mut self, document: &D) -> Result<OperationIndex, BatchError> {
        self.push_document(document, |resource_body| BatchOperation::Upsert {
            resource_body,
            if_match: None,
        })
    }

    /// Replaces a document, whatever its version.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn replace<D: MemberOf<C>>(&mut self, document: &D) -> Result<OperationIndex, BatchError> {
        self.check_partition(document.partition_key())?;
        self.push_replace(encode::<C, D>(document, LATER)?, None)
    }

    /// Replaces the version `etag` of a document.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn replace_if_match<D: MemberOf<C>>(
        &mut self,
        document: &D,
        etag: &ETag,
    ) -> Result<OperationIndex, BatchError> {
        self.check_partition(document.partition_key())?;
        self.push_replace(encode::<C, D>(document, LATER)?, Some(etag))
    }

    /// Replaces exactly this stored version, by its stored id.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn replace_stored<D: MemberOf<C>>(
        &mut self,
        stored: &Stored<D>,
    ) -> Result<OperationIndex, BatchError> {
        self.check_partition(stored.document.partition_key())?;
        let encoded = encode_stored::<C, D>(stored.id.clone(), &stored.document)?;
        self.push_replace(encoded, Some(&stored.etag))
    }

    /// Patches a document.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn patch<D: MemberOf<C>>(
        &mut self,
        key: &D::Key,
        patch: &Patch<D>,
    ) -> Result<OperationIndex, BatchError> {
        self.push_patch(key.to_id()?, patch, None)
    }

    /// Patches the version `etag` of a document.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn patch_if_match<D: MemberOf<C>>(
        &mut self,
        key: &D::Key,
        patch: &Patch<D>,
        etag: &ETag,
    ) -> Result<OperationIndex, BatchError> {
        self.push_patch(key.to_id()?, patch, Some(etag))
    }

    /// Patches exactly this stored version, by its stored id.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn patch_stored<D: MemberOf<C>>(
        &mut self,
        stored: &Stored<D>,
        patch: &Patch<D>,
    ) -> Result<OperationIndex, BatchError> {
        self.check_partition(stored.document.partition_key())?;
        self.push_patch(stored.id.clone(), patch, Some(&stored.etag))
    }

    /// Deletes a document. A missing document fails the batch.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete<K: DocumentKey>(&mut self, key: &K) -> Result<OperationIndex, BatchError>
    where
        K::Document: MemberOf<C>,
    {
        self.push_delete(key.to_id()?, None)
    }

    /// Deletes the version `etag` of a document.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_if_match<K: DocumentKey>(
        &mut self,
        key: &K,
        etag: &ETag,
    ) -> Result<OperationIndex, BatchError>
    where
        K::Document: MemberOf<C>,
    {
        self.push_delete(key.to_id()?, Some(etag))
    }

    /// Deletes exactly this stored version, by its stored id.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_stored<D: MemberOf<C>>(
        &mut self,
        stored: &Stored<D>,
    ) -> Result<OperationIndex, BatchError> {
        self.check_partition(stored.document.partition_key())?;
        self.push_delete(stored.id.clone(), Some(&stored.etag))
    }

    /// Patches the found version of a document that cannot be read.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn patch_at<D: MemberOf<C>>(
        &mut self,
        location: &Location,
        patch: &Patch<D>,
    ) -> Result<OperationIndex, BatchError> {
        self.check_partition(location.partition_key.clone())?;
        self.push_patch(location.id.clone(), patch, Some(&location.etag))
    }

    /// Deletes the found version of a document that cannot be read.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_at(&mut self, location: &Location) -> Result<OperationIndex, BatchError> {
        self.check_partition(location.partition_key.clone())?;
        self.push_delete(location.id.clone(), Some(&location.etag))
    }

    /// Reads a document after the operations before. A missing document fails the batch.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn read<K: DocumentKey>(&mut self, key: &K) -> Result<OperationIndex, BatchError>
    where
        K::Document: MemberOf<C>,
    {
        let id = key.to_id()?;
        self.push(id.clone(), BatchOperation::Read { id }, TimeSlots::None)
    }

    /// Adds the operations of another batch of the same partition, whose container may extend this
    /// one.
    ///
    /// # Errors
    /// See [`BatchError`]. No operation is added then.
    pub fn append<B: Extends<C>>(&mut self, other: &Batch<B>) -> Result<(), BatchError> {
        self.check_partition(other.partition_key.clone())?;
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

    fn check_partition(&self, found: PartitionKey) -> Result<(), BatchError> {
        if found == self.partition_key {
            return Ok(());
        }
        Err(BatchError::OtherPartition {
            expected: self.partition_key.clone(),
            found,
        })
    }

    fn push_document<D: MemberOf<C>>(
        &mut self,
        document: &D,
        operation: impl FnOnce(Box<RawValue>) -> BatchOperation,
    ) -> Result<OperationIndex, BatchError> {
        self.check_partition(document.partition_key())?;
        let encoded = encode::<C, D>(document, LATER)?;
        self.push(encoded.id, operation(encoded.json), encoded.times)
    }

    fn push_replace(
        &mut self,
        encoded: Encoded,
        etag: Option<&ETag>,
    ) -> Result<OperationIndex, BatchError> {
        let operation = BatchOperation::Replace {
            id: encoded.id.clone(),
            resource_body: encoded.json,
            if_match: etag.cloned(),
        };
        self.push(encoded.id, operation, encoded.times)
    }

    fn push_patch<D: Document>(
        &mut self,
        id: ItemId,
        patch: &Patch<D>,
        etag: Option<&ETag>,
    ) -> Result<OperationIndex, BatchError> {
        let operation = BatchOperation::Patch {
            id: id.clone(),
            resource_body: patch.body(LATER)?,
            if_match: etag.cloned(),
        };
        self.push(id, operation, TimeSlots::of_patch(D::SHAPE))
    }

    fn push_delete(
        &mut self,
        id: ItemId,
        etag: Option<&ETag>,
    ) -> Result<OperationIndex, BatchError> {
        let operation = BatchOperation::Delete {
            id: id.clone(),
            if_match: etag.cloned(),
        };
        self.push(id, operation, TimeSlots::None)
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
