//! The differences between a live container and its model.
//!
//! Defaults that the service adds, and the order of its lists, are not differences.

use std::collections::BTreeSet;
use std::fmt;

use cdb_model::{ContainerDefinition, Drift, UniqueKey};

/// One difference between a live container and its model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// The partition key differs, so the container cannot store the model's documents. Only a new
    /// container helps.
    PartitionKey {
        /// Paths of the model.
        expected: Vec<String>,
        /// Paths of the container.
        found: Vec<String>,
    },
    /// The hash of the partition key has another version. Version 1 allows 101 bytes per value,
    /// version 2 allows 2048. A version cannot be changed.
    PartitionKeyVersion {
        /// Version of the model.
        expected: u8,
        /// Version of the container.
        found: u8,
    },
    /// The default time to live differs. In seconds; -1 means that each document sets its own.
    TimeToLive {
        /// Value of the model.
        expected: Option<i64>,
        /// Value of the container.
        found: Option<i64>,
    },
    /// The unique keys differ. They cannot be changed after creation.
    UniqueKeys {
        /// Unique keys of the model that the container does not enforce.
        missing: Vec<Vec<String>>,
        /// Unique keys of the container that the model does not have.
        unexpected: Vec<Vec<String>>,
    },
    /// The indexing policy differs.
    Indexing(Drift),
}

impl Difference {
    /// Returns the differences between a model and a live container, fatal ones first.
    pub fn between(model: &ContainerDefinition, live: &ContainerDefinition) -> Vec<Self> {
        let mut differences = Vec::new();
        if model.partition_key.paths != live.partition_key.paths {
            differences.push(Self::PartitionKey {
                expected: model.partition_key.paths.clone(),
                found: live.partition_key.paths.clone(),
            });
        }
        let (expected, found) = (model.partition_key.version, live.partition_key.version);
        if differences.is_empty() && live.partition_key.paths.len() == 1 && expected != found {
            differences.push(Self::PartitionKeyVersion { expected, found });
        }
        if model.default_ttl != live.default_ttl {
            differences.push(Self::TimeToLive {
                expected: model.default_ttl,
                found: live.default_ttl,
            });
        }
        differences.extend(compare_unique_keys(model, live));
        let drift = model.indexing_policy.drift_of(&live.indexing_policy);
        differences.extend(drift.into_iter().map(Self::Indexing));
        differences
    }

    /// Whether the container cannot store the model's documents.
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
            Self::PartitionKeyVersion { expected, found } => write!(
                f,
                "its partition key has version {found}, the model's has version {expected}; values longer than 101 bytes \
                 need version 2 (`--partition-key-version 2`), which only a new container can have"
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
                "its unique keys lack {missing:?} and have {unexpected:?} in addition; unique keys cannot be changed, use another container"
            ),
            Self::Indexing(drift) => drift.fmt(f),
        }
    }
}

fn ttl(seconds: Option<i64>) -> String {
    match seconds {
        None => "off".to_owned(),
        Some(-1) => "set by each document".to_owned(),
        Some(seconds) => format!("{seconds} s"),
    }
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
