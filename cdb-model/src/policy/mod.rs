//! The indexing policy of a container, merged from its document types.

mod covers;
mod difference;
mod json;
mod merge;
mod path;
mod search;

pub use difference::PolicyDifference;
pub use json::{CompositeIndexPath, ExcludedPath, IncludedPath, IndexingMode, IndexingPolicy};
pub(crate) use path::policy_path;
pub use search::{
    ComputedProperty, FullTextIndex, FullTextPath, FullTextPolicy, VectorEmbedding,
    VectorEmbeddingPolicy, VectorIndex,
};
