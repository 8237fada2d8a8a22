//! How a live container's indexing policy differs from the model's, by name and with the price.
//!
//! The service reorders paths, leaves out what is the default, and adds its own exclusion of `_etag`; none of that is a
//! difference.

use std::collections::BTreeSet;
use std::fmt;

use super::json::{CompositeIndexPath, IndexingMode, IndexingPolicy};
use crate::shape::Direction;

/// One difference.
///
/// ```
/// use cdb_model::{Container, Drift};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// let model = Shop::definition().indexing_policy;
/// let mut live = model.clone();
/// live.composite_indexes.clear();
/// let drift = model.drift_of(&live);
/// assert!(matches!(drift[..], [Drift::MissingComposite(_)]));
/// assert!(drift[0].breaks_queries());
/// println!("{}", drift[0]); // with what it costs to change it
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drift {
    /// Documents are indexed at another time, or not at all.
    Mode {
        /// The model's.
        expected: IndexingMode,
        /// The container's.
        found: IndexingMode,
    },
    /// A path that the model's queries need is not indexed: they scan.
    MissingPath(String),
    /// A path is indexed that no query of the model needs: every write pays for it.
    SuperfluousPath(String),
    /// A path that the model keeps out is not kept out.
    MissingExclusion(String),
    /// A path is kept out that the model does not name.
    SuperfluousExclusion(String),
    /// A composite index that the model's queries need is not there: their sorts are refused.
    MissingComposite(String),
    /// A composite index that no query of the model needs: every write pays for it.
    SuperfluousComposite(String),
}

impl Drift {
    /// Whether queries of the model are refused or scan because of it; otherwise it only costs.
    pub fn breaks_queries(&self) -> bool {
        matches!(
            self,
            Self::Mode { .. } | Self::MissingPath(_) | Self::MissingComposite(_)
        )
    }
}

impl fmt::Display for Drift {
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
                "`{path}` is indexed and no query needs it; every write pays for it. Removing it takes effect at once"
            ),
            Self::MissingExclusion(path) => write!(f, "`{path}` is not excluded"),
            Self::SuperfluousExclusion(path) => {
                write!(f, "`{path}` is excluded and the model does not say so")
            }
            Self::MissingComposite(paths) => write!(
                f,
                "the composite index ({paths}) is missing; sorts by it are refused. Adding it re-indexes with spare request units"
            ),
            Self::SuperfluousComposite(paths) => write!(
                f,
                "the composite index ({paths}) serves no query; every write pays for it. Removing it takes effect at once"
            ),
        }
    }
}

impl IndexingPolicy {
    /// What is different in the policy of a live container. Empty when both index the same.
    pub fn drift_of(&self, live: &Self) -> Vec<Drift> {
        let mut drift = Vec::new();
        if self.indexing_mode != live.indexing_mode {
            drift.push(Drift::Mode {
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
        // A path that the container covers by a wildcard is indexed, if not under its name.
        let is_missing = |path: &String| !live.covers(path.trim_end_matches("/?"));
        let (expected, found) = (included(self), included(live));
        let expected = expected
            .into_iter()
            .filter(|path| found.contains(path) || is_missing(path));
        compare(
            &mut drift,
            (&expected.collect(), &found),
            Drift::MissingPath,
            Drift::SuperfluousPath,
        );
        compare(
            &mut drift,
            (&excluded(self), &excluded(live)),
            Drift::MissingExclusion,
            Drift::SuperfluousExclusion,
        );
        compare(
            &mut drift,
            (&composites(self), &composites(live)),
            Drift::MissingComposite,
            Drift::SuperfluousComposite,
        );
        drift
    }

    /// What a live container's policy lacks of this one: the paths and composite indexes to add to it.
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
        lacking
    }
}

fn compare(
    drift: &mut Vec<Drift>,
    (model, live): (&BTreeSet<String>, &BTreeSet<String>),
    missing: fn(String) -> Drift,
    superfluous: fn(String) -> Drift,
) {
    drift.extend(model.difference(live).cloned().map(missing));
    drift.extend(live.difference(model).cloned().map(superfluous));
}

/// A composite index as text; of an index and its inverse, which serve the same sorts, the same text.
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
