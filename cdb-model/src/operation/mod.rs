//! Operations in the form that a container stores, alone, in a batch or in a bulk.

mod batch;
mod batch_operation;
mod bulk;
mod lease;
mod patch;
mod prepare;
mod soft_delete;
mod target;

pub use batch::{Batch, BatchError, OperationIndex};
pub use batch_operation::BatchOperation;
pub use bulk::BulkBatch;
pub use lease::{Leasable, Lease, LeasePaths};
pub use patch::{Changeable, Counter, EntryPath, Patch, PatchBody, PatchError, PatchOperation};
pub use prepare::{Operation, OperationError, PreparedOperation};
pub use soft_delete::{DeletionPath, SoftDelete};
pub use target::{Identity, Target};
