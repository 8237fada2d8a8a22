//! The indexing policy that a container's document types add up to.

mod covers;
mod drift;
mod json;
mod merge;

pub use drift::Drift;
pub use json::{CompositeIndexPath, ExcludedPath, IncludedPath, IndexingMode, IndexingPolicy};
pub(crate) use merge::policy_path;
