//! How a live container differs from the one that the model describes.
//!
//! What the service adds by itself, and the order it lists things in, are no differences.

use std::collections::BTreeSet;
use std::fmt;

use cdb_model::{ContainerDefinition, Drift, UniqueKey};

/// One thing in which a live container differs from its model.
///
/// ```
/// use cdb_client::Difference;
/// use cdb_model::Container;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// let model = Shop::definition();
/// let mut live = model.clone();
/// live.partition_key.paths = vec!["/id".into()];
/// let found = Difference::between(&model, &live);
/// assert!(found[0].is_fatal()); // only a new container helps
/// println!("{}", found[0]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// Another partition key: documents of the model cannot be stored there. Only a new container helps.
    PartitionKey {
        /// Paths of the model.
        expected: Vec<String>,
        /// Paths of the container.
        found: Vec<String>,
    },
    /// Another default time to live, in seconds; -1 leaves it to the documents.
    TimeToLive {
        /// Of the model.
        expected: Option<i64>,
        /// Of the container.
        found: Option<i64>,
    },
    /// Other unique keys. They cannot be changed after creation.
    UniqueKeys {
        /// The model's that the container does not enforce.
        missing: Vec<Vec<String>>,
        /// The container's that the model does not know.
        unexpected: Vec<Vec<String>>,
    },
    /// Another indexing policy.
    Indexing(Drift),
}

impl Difference {
    /// All differences between a model and a live container, the fatal ones first.
    pub fn between(model: &ContainerDefinition, live: &ContainerDefinition) -> Vec<Self> {
        compare(model, live)
    }

    /// Whether no document of the model can be stored there.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::PartitionKey { .. })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PartitionKey { expected, found } => write!(
                f,
                "its partition key is {}, the model's is {}; a partition key cannot be changed, use another container",
                found.join(", "),
                expected.join(", ")
            ),
            Self::TimeToLive { expected, found } => write!(
                f,
                "its default time to live is {}, the model's is {}",
                ttl(*found),
                ttl(*expected)
            ),
            Self::UniqueKeys {
                missing,
                unexpected,
            } => write!(
                f,
                "its unique keys lack {missing:?} and have {unexpected:?} besides; unique keys cannot be changed, use another container"
            ),
            Self::Indexing(drift) => drift.fmt(f),
        }
    }
}

fn ttl(seconds: Option<i64>) -> String {
    match seconds {
        None => "off".to_owned(),
        Some(-1) => "left to the documents".to_owned(),
        Some(seconds) => format!("{seconds} s"),
    }
}

/// All differences, the fatal ones first.
pub(super) fn compare(model: &ContainerDefinition, live: &ContainerDefinition) -> Vec<Difference> {
    let mut differences = Vec::new();
    if model.partition_key.paths != live.partition_key.paths {
        differences.push(Difference::PartitionKey {
            expected: model.partition_key.paths.clone(),
            found: live.partition_key.paths.clone(),
        });
    }
    if model.default_ttl != live.default_ttl {
        differences.push(Difference::TimeToLive {
            expected: model.default_ttl,
            found: live.default_ttl,
        });
    }
    differences.extend(compare_unique_keys(model, live));
    let drift = model.indexing_policy.drift_of(&live.indexing_policy);
    differences.extend(drift.into_iter().map(Difference::Indexing));
    differences
}

fn compare_unique_keys(
    model: &ContainerDefinition,
    live: &ContainerDefinition,
) -> Option<Difference> {
    fn sets(keys: &[UniqueKey]) -> BTreeSet<Vec<String>> {
        keys.iter()
            .map(|key| {
                let mut paths = key.paths.clone();
                paths.sort();
                paths
            })
            .collect()
    }
    let expected = sets(&model.unique_key_policy.unique_keys);
    let found = sets(&live.unique_key_policy.unique_keys);
    (expected != found).then(|| Difference::UniqueKeys {
        missing: expected.difference(&found).cloned().collect(),
        unexpected: found.difference(&expected).cloned().collect(),
    })
}
