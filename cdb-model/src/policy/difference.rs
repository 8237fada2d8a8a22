//! The differences between the indexing policies of a live container and its model, with their
//! costs.
//!
//! The service reorders paths, omits defaults, and excludes `_etag`; these are not differences.

use std::collections::BTreeSet;
use std::fmt;

use super::json::{CompositeIndexPath, IndexingMode, IndexingPolicy};
use crate::shape::Direction;

/// One difference between two indexing policies.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyDifference {
    /// The indexing mode differs.
    Mode {
        /// The mode of the model.
        expected: IndexingMode,
        /// The mode of the container.
        found: IndexingMode,
    },
    /// A path that the model's queries need is not indexed, so they scan.
    MissingPath(String),
    /// A path that no query of the model needs is indexed, at a cost for each write.
    SuperfluousPath(String),
    /// A path that the model excludes is not excluded.
    MissingExclusion(String),
    /// A path that the model does not exclude is excluded.
    SuperfluousExclusion(String),
    /// A composite index that the model's queries need is missing, so their sorts are refused.
    MissingComposite(String),
    /// The model's queries do not need a composite index, which costs every write.
    SuperfluousComposite(String),
    /// A vector index or full-text index of the model is missing, so that searches scan.
    MissingSearchIndex(String),
}

impl PolicyDifference {
    /// Whether queries of the model fail or scan because of the difference. Other differences only
    /// cost request units.
    pub fn breaks_queries(&self) -> bool {
        matches!(
            self,
            Self::Mode { .. }
                | Self::MissingPath(_)
                | Self::MissingComposite(_)
                | Self::MissingSearchIndex(_)
        )
    }
}

impl fmt::Display for PolicyDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode { expected, found } => write!(
                f,
                "indexing mode is {found:?} instead of {expected:?}; queries scan until it is changed"
            ),
            Self::MissingPath(path) => write!(
                f,
                "`{path}` is not indexed; queries on it scan. Adding it re-indexes with spare request units"
            ),
            Self::SuperfluousPath(path) => write!(
                f,
                "`{path}` is indexed and no query of the model needs it; every write pays for it. Removing it takes effect at once"
            ),
            Self::MissingExclusion(path) => write!(f, "`{path}` is not excluded"),
            Self::SuperfluousExclusion(path) => {
                write!(f, "`{path}` is excluded, but not by the model")
            }
            Self::MissingComposite(paths) => write!(
                f,
                "the composite index ({paths}) is missing; sorts by it are refused. Adding it re-indexes with spare request units"
            ),
            Self::MissingSearchIndex(index) => write!(
                f,
                "the {index} is missing; searches by it scan. Adding it re-indexes with spare request units"
            ),
            Self::SuperfluousComposite(paths) => write!(
                f,
                "the composite index ({paths}) serves no query of the model; every write pays for it. Removing it takes effect at once"
            ),
        }
    }
}

impl IndexingPolicy {
    /// Returns the differences of the policy of a live container; empty if both index the same.
    pub fn differences_of(&self, live: &Self) -> Vec<PolicyDifference> {
        let mut differences = Vec::new();
        if self.indexing_mode != live.indexing_mode {
            differences.push(PolicyDifference::Mode {
                expected: self.indexing_mode,
                found: live.indexing_mode,
            });
        }
        let included = |policy: &Self| -> BTreeSet<String> {
            let paths = policy.included_paths.iter().map(|path| path.path.clone());
            paths.collect()
        };
        let excluded = |policy: &Self| -> BTreeSet<String> {
            let paths = policy.excluded_paths.iter().map(|path| path.path.clone());
            paths.filter(|path| path != "/\"_etag\"/?").collect()
        };
        let composites = |policy: &Self| -> BTreeSet<String> {
            let indexes = policy.composite_indexes.iter();
            indexes.map(|paths| normal_form(paths)).collect()
        };
        // A wildcard of the container may index the path.
        let is_missing = |path: &String| !live.covers(path.trim_end_matches("/?"));
        let (expected, found) = (included(self), included(live));
        let expected = expected
            .into_iter()
            .filter(|path| found.contains(path) || is_missing(path));
        compare(
            &mut differences,
            &expected.collect(),
            &found,
            PolicyDifference::MissingPath,
            PolicyDifference::SuperfluousPath,
        );
        compare(
            &mut differences,
            &excluded(self),
            &excluded(live),
            PolicyDifference::MissingExclusion,
            PolicyDifference::SuperfluousExclusion,
        );
        compare(
            &mut differences,
            &composites(self),
            &composites(live),
            PolicyDifference::MissingComposite,
            PolicyDifference::SuperfluousComposite,
        );
        differences.extend(self.missing_search_indexes(live));
        differences
    }

    /// Returns the vector and full-text indexes that a live container lacks. Others are not
    /// reported: this crate removes none, because they may serve other programs.
    fn missing_search_indexes(&self, live: &Self) -> impl Iterator<Item = PolicyDifference> {
        let lacking = self.lacking_in(live);
        let vectors = lacking.vector_indexes.into_iter();
        let vectors = vectors.map(|index| format!("vector index of `{}`", index.path));
        let texts = lacking.full_text_indexes.into_iter();
        let texts = texts.map(|index| format!("full-text index of `{}`", index.path));
        vectors
            .chain(texts)
            .map(PolicyDifference::MissingSearchIndex)
    }

    /// Returns the paths and indexes of this policy that the policy of a live container lacks. A
    /// vector index of another kind counts as the same index.
    pub fn lacking_in(&self, live: &Self) -> Self {
        let mut lacking = self.clone();
        lacking
            .included_paths
            .retain(|path| !live.included_paths.contains(path));
        lacking.excluded_paths.clear();
        lacking.composite_indexes.retain(|needed| {
            let mut there = live.composite_indexes.iter();
            !there.any(|paths| normal_form(paths) == normal_form(needed))
        });
        lacking.vector_indexes.retain(|needed| {
            let mut there = live.vector_indexes.iter();
            !there.any(|index| index.path == needed.path)
        });
        lacking
            .full_text_indexes
            .retain(|needed| !live.full_text_indexes.contains(needed));
        lacking
    }
}

fn compare(
    differences: &mut Vec<PolicyDifference>,
    model: &BTreeSet<String>,
    live: &BTreeSet<String>,
    missing: fn(String) -> PolicyDifference,
    superfluous: fn(String) -> PolicyDifference,
) {
    differences.extend(model.difference(live).cloned().map(missing));
    differences.extend(live.difference(model).cloned().map(superfluous));
}

/// Returns a composite index as text. An index and its reverse, which serve the same sorts, have
/// the same text.
fn normal_form(paths: &[CompositeIndexPath]) -> String {
    let invert = paths
        .first()
        .is_some_and(|path| path.order == Direction::Descending);
    let text = paths.iter().map(|path| {
        let descending = (path.order == Direction::Descending) != invert;
        format!("{}{}", path.path, if descending { " desc" } else { "" })
    });
    text.collect::<Vec<_>>().join(", ")
}
