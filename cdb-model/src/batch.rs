//! Transactional batches: one partition, all or nothing, within the service's limits.
//!
//! A batch that does not fit is an error and never two batches: whoever splits it gives up its atomicity, and that
//! is for the caller to decide.

use std::marker::PhantomData;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::codec::{encode, encode_stored};
use crate::codec_error::EncodeError;
use crate::container::{Container, Extends, MemberOf};
use crate::document::{Document, DocumentKey, Stored};
use crate::etag::ETag;
use crate::id::{IdError, ItemId};
use crate::limits::{MAX_BATCH_OPERATIONS, MAX_REQUEST_BYTES};
use crate::partition_key::PartitionKey;
use crate::patch::{Patch, PatchBody, PatchError};
use crate::unreadable::Location;

/// Why an operation was not added. The batch is as it was.
///
/// ```
/// use cdb_model::{Batch, BatchError};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Shop, order};
///
/// let mut batch = Batch::<Shop>::new("grace");
/// let refused = batch.create(&order(7)); // an order of Ada's
/// assert!(matches!(refused, Err(BatchError::OtherPartition { .. })));
/// assert!(batch.is_empty());
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// It has as many operations as the service takes.
    #[error("a batch takes {MAX_BATCH_OPERATIONS} operations")]
    Full,
    /// It would have more bytes than the service takes.
    #[error("the batch would take {bytes} bytes, the service takes {MAX_REQUEST_BYTES}")]
    TooLarge {
        /// Bytes of the whole batch with the operation.
        bytes: usize,
    },
    /// The document belongs to another partition.
    #[error("the batch is for partition {expected}, the document belongs to {found}")]
    OtherPartition {
        /// The batch's partition.
        expected: PartitionKey,
        /// The document's.
        found: PartitionKey,
    },
    /// The document cannot be stored.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The key has no id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The patch cannot be sent.
    #[error(transparent)]
    Patch(#[from] PatchError),
}

/// The position of an operation in its batch, and so of its result.
///
/// ```
/// use cdb_model::Batch;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Shop, order};
///
/// let mut batch = Batch::<Shop>::new("ada");
/// batch.create(&order(7))?;
/// let second = batch.create(&order(8))?;
/// assert_eq!(second.get(), 1);
/// assert_eq!(batch.id(second).map(|id| id.as_str()), Some("order:8"));
/// # Ok::<(), cdb_model::BatchError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationIndex(usize);

impl OperationIndex {
    /// The operation that is added to so many.
    pub(crate) const fn after(operations: usize) -> Self {
        Self(operations)
    }

    /// Counted from zero.
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
///
/// ```
/// use cdb_model::{Batch, BatchOperation};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, Shop};
///
/// let mut batch = Batch::<Shop>::new("ada");
/// batch.delete(&OrderKey::new(7_u64))?;
/// assert!(matches!(batch.operations(), [BatchOperation::Delete { if_match: None, .. }]));
/// let sent = serde_json::to_value(batch.operations())?;
/// assert_eq!(sent[0]["operationType"], "Delete");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "operationType", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum BatchOperation {
    /// Stores a document that is not there.
    Create {
        /// The document.
        resource_body: Box<RawValue>,
    },
    /// Stores a document, there or not.
    Upsert {
        /// The document.
        resource_body: Box<RawValue>,
        /// The version it must have.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Stores a document that is there.
    Replace {
        /// Its id.
        id: ItemId,
        /// The document.
        resource_body: Box<RawValue>,
        /// The version it must have.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Changes a document.
    Patch {
        /// Its id.
        id: ItemId,
        /// The changes.
        resource_body: PatchBody,
        /// The version it must have.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Deletes a document. One that is not there fails the whole batch.
    Delete {
        /// Its id.
        id: ItemId,
        /// The version it must have.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_match: Option<ETag>,
    },
    /// Reads a document. One that is not there fails the whole batch.
    Read {
        /// Its id.
        id: ItemId,
    },
}

/// Operations on one partition of container `C` that take place together or not at all.
///
/// ```
/// use cdb_model::{Batch, Patch};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, Shop, order};
///
/// let mut batch = Batch::<Shop>::new("ada");
/// batch.create(&order(8))?;
/// batch.patch(&OrderKey::new(7_u64), &Patch::new().set(Order::TOTAL_CENTS, 0))?;
/// batch.delete(&OrderKey::new(6_u64))?;
/// assert_eq!(batch.len(), 3); // of 100; sent by `ContainerClient::execute`
/// # Ok::<(), cdb_model::BatchError>(())
/// ```
#[derive(Debug)]
pub struct Batch<C> {
    partition_key: PartitionKey,
    operations: Vec<BatchOperation>,
    ids: Vec<ItemId>,
    bytes: usize,
    marker: PhantomData<fn() -> C>,
}

impl<C> Clone for Batch<C> {
    fn clone(&self) -> Self {
        Self {
            partition_key: self.partition_key.clone(),
            operations: self.operations.clone(),
            ids: self.ids.clone(),
            bytes: self.bytes,
            marker: PhantomData,
        }
    }
}

impl<C: Container> Batch<C> {
    /// A batch for one partition.
    pub fn new(partition_key: impl Into<PartitionKey>) -> Self {
        Self {
            partition_key: partition_key.into(),
            operations: Vec::new(),
            ids: Vec::new(),
            bytes: 2,
            marker: PhantomData,
        }
    }

    /// The partition it is for.
    pub fn partition_key(&self) -> &PartitionKey {
        &self.partition_key
    }

    /// Its operations, ready to be sent as a JSON array.
    pub fn operations(&self) -> &[BatchOperation] {
        &self.operations
    }

    /// The id of the document that an operation is about.
    pub fn id(&self, index: OperationIndex) -> Option<&ItemId> {
        self.ids.get(index.0)
    }

    /// How many operations it has; the service takes 100.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether it has none. The service refuses such a batch.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Bytes of the request; the service takes 2 MB.
    pub fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// Stores a document that is not there.
    ///
    /// # Errors
    /// See [`BatchError`]; so for all operations.
    pub fn create<D: MemberOf<C>>(&mut self, document: &D) -> Result<OperationIndex, BatchError> {
        let (id, resource_body) = self.encode(document)?;
        self.push(id, BatchOperation::Create { resource_body })
    }

    /// Stores a document, there or not, whoever wrote it last.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn upsert<D: MemberOf<C>>(&mut self, document: &D) -> Result<OperationIndex, BatchError> {
        let (id, resource_body) = self.encode(document)?;
        let if_match = None;
        self.push(
            id,
            BatchOperation::Upsert {
                resource_body,
                if_match,
            },
        )
    }

    /// Stores a document that is there, whoever wrote it last.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn replace<D: MemberOf<C>>(&mut self, document: &D) -> Result<OperationIndex, BatchError> {
        let (id, resource_body) = self.encode(document)?;
        self.push_replace(id, resource_body, None)
    }

    /// Stores a document that still has this version.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn replace_if_match<D: MemberOf<C>>(
        &mut self,
        document: &D,
        etag: &ETag,
    ) -> Result<OperationIndex, BatchError> {
        let (id, resource_body) = self.encode(document)?;
        self.push_replace(id, resource_body, Some(etag))
    }

    /// Stores a document under the id and version that it was read with, whichever program chose the id.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn replace_stored<D: MemberOf<C>>(
        &mut self,
        stored: &Stored<D>,
    ) -> Result<OperationIndex, BatchError> {
        self.check_partition(stored.document.partition_key())?;
        let encoded = encode_stored::<C, D>(stored.id.clone(), &stored.document)?;
        self.push_replace(encoded.id, encoded.json, Some(&stored.etag))
    }

    /// Changes a document.
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

    /// Changes a document that still has this version.
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

    /// Changes a document under the id and version that it was read with, whichever program chose the id.
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

    /// Deletes a document. One that is not there fails the whole batch.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete<K: DocumentKey>(&mut self, key: &K) -> Result<OperationIndex, BatchError>
    where
        K::Document: MemberOf<C>,
    {
        self.push_delete(key.to_id()?, None)
    }

    /// Deletes a document that still has this version.
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

    /// Deletes a document under the id and version that it was read with, whichever program chose the id.
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

    /// Changes a document that cannot be read, in the version that was found.
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

    /// Deletes a document that cannot be read, in the version that was found.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_at(&mut self, location: &Location) -> Result<OperationIndex, BatchError> {
        self.check_partition(location.partition_key.clone())?;
        self.push_delete(location.id.clone(), Some(&location.etag))
    }

    /// Reads a document, as it is after the operations before. One that is not there fails the whole batch.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn read<K: DocumentKey>(&mut self, key: &K) -> Result<OperationIndex, BatchError>
    where
        K::Document: MemberOf<C>,
    {
        let id = key.to_id()?;
        self.push(id.clone(), BatchOperation::Read { id })
    }

    /// Adds the operations of another batch of the same partition, which may be about documents of a container that
    /// extends this one.
    ///
    /// # Errors
    /// See [`BatchError`]. All are added or none.
    pub fn append<B: Extends<C>>(&mut self, other: &Batch<B>) -> Result<(), BatchError> {
        self.check_partition(other.partition_key.clone())?;
        if self.len() + other.len() > MAX_BATCH_OPERATIONS {
            return Err(BatchError::Full);
        }
        // Each of them counts its two brackets.
        let bytes = self.bytes + other.bytes - 2;
        if bytes > MAX_REQUEST_BYTES {
            return Err(BatchError::TooLarge { bytes });
        }
        self.bytes = bytes;
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

    fn encode<D: MemberOf<C>>(&self, document: &D) -> Result<(ItemId, Box<RawValue>), BatchError> {
        self.check_partition(document.partition_key())?;
        let encoded = encode::<C, D>(document)?;
        Ok((encoded.id, encoded.json))
    }

    fn push_replace(
        &mut self,
        id: ItemId,
        resource_body: Box<RawValue>,
        etag: Option<&ETag>,
    ) -> Result<OperationIndex, BatchError> {
        let operation = BatchOperation::Replace {
            id: id.clone(),
            resource_body,
            if_match: etag.cloned(),
        };
        self.push(id, operation)
    }

    fn push_patch<D: Document>(
        &mut self,
        id: ItemId,
        patch: &Patch<D>,
        etag: Option<&ETag>,
    ) -> Result<OperationIndex, BatchError> {
        let operation = BatchOperation::Patch {
            id: id.clone(),
            resource_body: patch.body()?,
            if_match: etag.cloned(),
        };
        self.push(id, operation)
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
        self.push(id, operation)
    }

    fn push(
        &mut self,
        id: ItemId,
        operation: BatchOperation,
    ) -> Result<OperationIndex, BatchError> {
        if self.operations.len() == MAX_BATCH_OPERATIONS {
            return Err(BatchError::Full);
        }
        let bytes = self.bytes + json_bytes(&operation) + 1;
        if bytes > MAX_REQUEST_BYTES {
            return Err(BatchError::TooLarge { bytes });
        }
        self.bytes = bytes;
        self.operations.push(operation);
        self.ids.push(id);
        Ok(OperationIndex(self.operations.len() - 1))
    }
}

/// Bytes of an operation as JSON. What cannot be written counts as too large, and is refused as such.
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
