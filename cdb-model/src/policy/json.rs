//! The policy as the service writes and reads it.

use serde::{Deserialize, Serialize};

use crate::shape::Direction;

/// An indexing policy in the service's form.
///
/// ```
/// use cdb_model::{Container, IndexingPolicy};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// let policy = Shop::definition().indexing_policy;
/// assert!(policy.covers("/totalCents") && !policy.covers("/remark"));
/// let live: IndexingPolicy = serde_json::from_str(&policy.to_json_pretty())?;
/// assert!(policy.drift_of(&live).is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexingPolicy {
    /// `consistent`, or `none` for pure key-value containers.
    pub indexing_mode: IndexingMode,
    /// Whether documents are indexed without being told to.
    #[serde(default = "yes")]
    pub automatic: bool,
    /// What is indexed.
    #[serde(default)]
    pub included_paths: Vec<IncludedPath>,
    /// What is not.
    #[serde(default)]
    pub excluded_paths: Vec<ExcludedPath>,
    /// Indexes over several paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub composite_indexes: Vec<Vec<CompositeIndexPath>>,
}

fn yes() -> bool {
    true
}

/// When documents are indexed.
///
/// ```
/// use cdb_model::{Container, Drift, IndexingMode};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// let model = Shop::definition().indexing_policy;
/// let mut live = model.clone();
/// live.indexing_mode = IndexingMode::None; // set for a bulk load and forgotten: every query scans
/// assert!(model.drift_of(&live).iter().any(Drift::breaks_queries));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexingMode {
    /// With the write.
    Consistent,
    /// In the background; no longer offered for new containers.
    Lazy,
    /// Never.
    None,
}

/// A path that is indexed.
///
/// ```
/// use cdb_model::{Container, IncludedPath};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// let policy = Shop::definition().indexing_policy;
/// let total = IncludedPath { path: "/totalCents/?".into() };
/// assert!(policy.included_paths.contains(&total));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IncludedPath {
    /// In the service's grammar: `/a/b/?`, `/a/*`, `/tags/[]/?`.
    pub path: String,
}

/// A path that is not indexed.
///
/// ```
/// use cdb_model::{Container, ExcludedPath};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// // All that no type asks for, and what one of them never wants indexed.
/// let policy = Shop::definition().indexing_policy;
/// let excluded = ["/*", "/remark/*"].map(|path| ExcludedPath { path: path.into() });
/// assert_eq!(policy.excluded_paths, excluded);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExcludedPath {
    /// In the service's grammar.
    pub path: String,
}

/// One path of a composite index.
///
/// ```
/// use cdb_model::{CompositeIndexPath, Container, Direction};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// let policy = Shop::definition().indexing_policy;
/// let by_total = ["/type", "/totalCents"].map(|path| CompositeIndexPath {
///     path: path.into(),
///     order: Direction::Ascending,
/// });
/// assert_eq!(policy.composite_indexes, [by_total]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompositeIndexPath {
    /// Without the `/?` that the service implies.
    pub path: String,
    /// Ascending when the service leaves it out.
    #[serde(default = "ascending")]
    pub order: Direction,
}

fn ascending() -> Direction {
    Direction::Ascending
}

impl IndexingPolicy {
    /// The policy as indented JSON, the same text for the same policy.
    pub fn to_json_pretty(&self) -> String {
        // Strings, bools and enums: nothing that JSON cannot hold.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl std::fmt::Display for IndexingPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_json_pretty())
    }
}
