//! The indexing policy in the service's form.

use serde::{Deserialize, Serialize};

use super::search::{FullTextIndex, VectorIndex};
use crate::shape::Direction;

/// An indexing policy in the service's form.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_model::policy::{IndexingPolicy, PolicyDifference};
/// use shop::Shop;
///
/// /// Compares the policy of a live container with that of the model.
/// fn differences(live: &str) -> serde_json::Result<Vec<PolicyDifference>> {
///     let live: IndexingPolicy = serde_json::from_str(live)?;
///     Ok(IndexingPolicy::of::<Shop>().differences_of(&live))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexingPolicy {
    /// When documents are indexed.
    pub indexing_mode: IndexingMode,
    /// Whether all documents are indexed.
    #[serde(default = "yes")]
    pub automatic: bool,
    /// The indexed paths.
    #[serde(default)]
    pub included_paths: Vec<IncludedPath>,
    /// The paths that are not indexed.
    #[serde(default)]
    pub excluded_paths: Vec<ExcludedPath>,
    /// Indexes over several paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub composite_indexes: Vec<Vec<CompositeIndexPath>>,
    /// Indexes of vectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vector_indexes: Vec<VectorIndex>,
    /// Indexes of words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full_text_indexes: Vec<FullTextIndex>,
}

fn yes() -> bool {
    true
}

/// When documents are indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexingMode {
    /// With each write.
    Consistent,
    /// In the background; not available for new containers.
    Lazy,
    /// Never, for key-value containers.
    None,
}

/// An indexed path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IncludedPath {
    /// In the service's grammar: `/a/b/?`, `/a/*`, `/tags/[]/?`.
    pub path: String,
}

/// A path that is not indexed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExcludedPath {
    /// In the service's grammar.
    pub path: String,
}

/// One path of a composite index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompositeIndexPath {
    /// The path, without the `/?` that the service implies.
    pub path: String,
    /// The direction. The service omits `ascending`.
    #[serde(default = "ascending")]
    pub order: Direction,
}

fn ascending() -> Direction {
    Direction::Ascending
}

impl IndexingPolicy {
    /// Returns the policy as indented JSON. Equal policies have equal texts.
    pub fn to_json_pretty(&self) -> String {
        // Strings, booleans and enums always serialize.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl std::fmt::Display for IndexingPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_json_pretty())
    }
}
