//! Patches, leases, batches and bulks, and operations in the form that a container stores.

pub(crate) mod batch;
mod batch_operation;
mod bulk;
mod lease;
pub(crate) mod patch;
mod prepare;
mod soft_delete;
mod target;

pub use batch::{BatchError, OperationIndex};
pub use batch_operation::BatchOperation;
pub use bulk::BulkBatch;
pub use lease::{Leasable, Lease, LeasePaths};
pub use patch::{Changeable, Counter, EntryPath, PatchBody, PatchError, PatchOperation};
pub use prepare::{Operation, OperationError, PreparedOperation};
pub use soft_delete::{DeletionPath, SoftDelete};
#[doc(hidden)]
pub use target::Identity;
pub use target::Target;
