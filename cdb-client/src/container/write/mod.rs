//! Writes: one operation, a batch, a bulk, and updates that read first.

mod batch;
mod bulk;
mod conflict;
mod single;
mod soft_delete;
mod update;

pub use super::migrate::{Migration, MigrationStep};
pub use super::point::Written;
pub use super::raw::RawTarget;
pub use crate::protocol::OperationResult;
pub use batch::BatchOutcome;
pub use single::{FromExecuted, SingleOperation};
