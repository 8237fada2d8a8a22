//! What an operation knows of its partition.

use std::fmt;

use crate::value::PartitionKey;

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
