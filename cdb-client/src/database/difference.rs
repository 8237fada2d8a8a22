//! The differences between a live container and its model.
//!
//! Defaults that the service adds, and the order of its lists, are not differences.

use std::collections::BTreeSet;
use std::fmt;

use cdb_model::container::{ContainerDefinition, UniqueKey};
use cdb_model::policy::{ComputedProperty, FullTextPath, PolicyDifference, VectorEmbedding};

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
    /// The container does not compute a property of the model, or computes it in another way.
    /// Queries that use it have wrong results.
    ComputedProperty {
        /// The property of the model.
        expected: ComputedProperty,
        /// The query of the container; `None` if it has none.
        found: Option<String>,
    },
    /// The container does not know a vector of the model, or knows it with other settings. Vectors can
    /// be added to a container, and not changed.
    Vector {
        /// The vector of the model.
        expected: VectorEmbedding,
        /// The vector of the container.
        found: Option<VectorEmbedding>,
    },
    /// The container does not know a full-text path of the model, or knows it in another language.
    FullText {
        /// The path of the model.
        expected: FullTextPath,
        /// The path of the container.
        found: Option<FullTextPath>,
    },
    /// The indexing policy differs.
    Indexing(PolicyDifference),
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
        let is_same_key = model.partition_key.paths == live.partition_key.paths;
        if is_same_key && live.partition_key.paths.len() == 1 && expected != found {
            differences.push(Self::PartitionKeyVersion { expected, found });
        }
        if model.default_ttl != live.default_ttl {
            differences.push(Self::TimeToLive {
                expected: model.default_ttl,
                found: live.default_ttl,
            });
        }
        differences.extend(compare_unique_keys(model, live));
        differences.extend(compare_search(model, live));
        let indexing = model.indexing_policy.differences_of(&live.indexing_policy);
        differences.extend(indexing.into_iter().map(Self::Indexing));
        differences
    }

    /// Whether the container cannot store the model's documents as declared, and no change of the
    /// container helps. A unique key that the model lacks refuses documents; without a unique key of
    /// the model, duplicates are stored.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::PartitionKey { .. } | Self::UniqueKeys { .. })
    }

    /// Whether the difference can be removed by a change of the container.
    pub fn is_changeable(&self) -> bool {
        matches!(
            self,
            Self::Indexing(_)
                | Self::TimeToLive { .. }
                | Self::ComputedProperty { .. }
                | Self::FullText { .. }
        )
    }

    /// Whether queries of the model fail, scan or have wrong results because of the difference.
    pub fn breaks_queries(&self) -> bool {
        match self {
            Self::Indexing(difference) => difference.breaks_queries(),
            Self::ComputedProperty { .. } | Self::Vector { .. } | Self::FullText { .. } => true,
            Self::PartitionKey { .. }
            | Self::PartitionKeyVersion { .. }
            | Self::TimeToLive { .. }
            | Self::UniqueKeys { .. } => false,
        }
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
            Self::ComputedProperty { expected, found } => write!(
                f,
                "its computed property `{}` is {}, the model's is `{}`; queries that use it have wrong results until it is changed",
                expected.name,
                found
                    .as_deref()
                    .map_or("missing".to_owned(), |query| format!("`{query}`")),
                expected.query
            ),
            Self::Vector { expected, found } => write!(
                f,
                "its vectors at `{}` are {}, the model's have {}{}",
                expected.path,
                found.as_ref().map_or("not declared".to_owned(), vector),
                vector(expected),
                found.as_ref().map_or("", |_| {
                    "; the service changes no vector: use another path or container, or remove the vector and its index first"
                })
            ),
            Self::FullText { expected, found } => write!(
                f,
                "its full-text path `{}` is {}, the model's is in {}; searches by words fail until it is changed",
                expected.path,
                found.as_ref().map_or("missing".to_owned(), |path| format!(
                    "in {}",
                    language(path)
                )),
                language(expected)
            ),
            Self::Indexing(difference) => difference.fmt(f),
        }
    }
}

fn vector(of: &VectorEmbedding) -> String {
    format!(
        "{} dimensions of {:?}, compared by {:?}",
        of.dimensions, of.data_type, of.distance_function
    )
}

fn language(of: &FullTextPath) -> &str {
    of.language.as_deref().unwrap_or("the default language")
}

/// Compares computed properties, vectors and full texts. What only the container has is no
/// difference: it may serve other programs, and costs nothing without an index.
fn compare_search(model: &ContainerDefinition, live: &ContainerDefinition) -> Vec<Difference> {
    let computed = model.computed_properties.iter().filter_map(|expected| {
        let mut there = live.computed_properties.iter();
        let found = there.find(|found| found.name == expected.name);
        (found != Some(expected)).then(|| Difference::ComputedProperty {
            expected: expected.clone(),
            found: found.map(|found| found.query.clone()),
        })
    });
    let vectors = model.vector_embedding_policy.vector_embeddings.iter();
    let vectors = vectors.filter_map(|expected| {
        let mut there = live.vector_embedding_policy.vector_embeddings.iter();
        let found = there.find(|found| found.path == expected.path);
        (found != Some(expected)).then(|| Difference::Vector {
            expected: expected.clone(),
            found: found.cloned(),
        })
    });
    let texts = model.full_text_policy.full_text_paths.iter();
    let texts = texts.filter_map(|expected| {
        let mut there = live.full_text_policy.full_text_paths.iter();
        let found = there.find(|found| found.path == expected.path);
        let default = &live.full_text_policy.default_language;
        let language = found.map(|found| found.language.as_ref().unwrap_or(default));
        (language != expected.language.as_ref()).then(|| Difference::FullText {
            expected: expected.clone(),
            found: found.cloned(),
        })
    });
    computed.chain(vectors).chain(texts).collect()
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
