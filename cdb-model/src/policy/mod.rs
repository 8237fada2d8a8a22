//! The indexing policy that a container's document types add up to.

mod json;
mod merge;

pub use json::{CompositeIndexPath, ExcludedPath, IncludedPath, IndexingMode, IndexingPolicy};
