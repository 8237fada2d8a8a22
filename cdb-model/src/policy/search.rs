//! Computed properties, vectors and full-text search in the definition of a container, in the
//! service's form.
//!
//! Sources: "Computed properties", "Vector search" and "Full-text search" in Azure Cosmos DB for
//! NoSQL.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::path::policy_path;
use crate::shape::{DocumentShape, VectorDistance, VectorElement, VectorIndexKind};
use crate::sql::computed_query;

/// A computed property.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ComputedProperty {
    /// The name, by which queries use it like a stored property.
    pub name: String,
    /// The query of the value: `SELECT VALUE LOWER(c["name"]) FROM c`.
    pub query: String,
}

impl ComputedProperty {
    /// Returns the computed properties of these types, by name.
    pub(crate) fn of(documents: &[&DocumentShape]) -> Vec<Self> {
        let shapes = documents.iter().flat_map(|shape| shape.computed);
        let properties = shapes.map(|shape| Self {
            name: shape.name.to_owned(),
            query: computed_query(shape.expression),
        });
        let properties: BTreeSet<_> = properties.collect();
        properties.into_iter().collect()
    }
}

/// The vectors of a container. They cannot be changed after creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VectorEmbeddingPolicy {
    /// The paths with vectors.
    #[serde(default)]
    pub vector_embeddings: Vec<VectorEmbedding>,
}

/// A path with vectors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VectorEmbedding {
    /// The path.
    pub path: String,
    /// The type of the numbers.
    #[serde(default)]
    pub data_type: VectorElement,
    /// How two vectors are compared.
    #[serde(default)]
    pub distance_function: VectorDistance,
    /// How many numbers each vector has.
    #[serde(default = "default_dimensions")]
    pub dimensions: u32,
}

fn default_dimensions() -> u32 {
    1536
}

/// The vector index of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VectorIndex {
    /// The path.
    pub path: String,
    /// The kind of index.
    #[serde(rename = "type", default)]
    pub kind: VectorIndexKind,
}

/// The full-text paths of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FullTextPolicy {
    /// The language of paths without one.
    pub default_language: String,
    /// The paths with text.
    #[serde(default)]
    pub full_text_paths: Vec<FullTextPath>,
}

impl Default for FullTextPolicy {
    fn default() -> Self {
        Self {
            default_language: "en-US".to_owned(),
            full_text_paths: Vec::new(),
        }
    }
}

/// A path with text for full-text search.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FullTextPath {
    /// The path.
    pub path: String,
    /// The language; `None` is the default of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

/// The full-text index of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FullTextIndex {
    /// The path.
    pub path: String,
}

impl VectorEmbeddingPolicy {
    pub(crate) fn of(documents: &[&DocumentShape]) -> Self {
        let shapes = documents.iter().flat_map(|shape| shape.vectors);
        let embeddings = shapes.map(|shape| VectorEmbedding {
            path: policy_path(shape.path),
            data_type: shape.element,
            distance_function: shape.distance,
            dimensions: shape.dimensions,
        });
        let embeddings: BTreeSet<_> = embeddings.collect();
        Self {
            vector_embeddings: embeddings.into_iter().collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.vector_embeddings.is_empty()
    }
}

impl FullTextPolicy {
    pub(crate) fn of(documents: &[&DocumentShape]) -> Self {
        let shapes = documents.iter().flat_map(|shape| shape.full_texts);
        let paths = shapes.map(|shape| FullTextPath {
            path: policy_path(shape.path),
            language: Some(shape.language.to_owned()),
        });
        let paths: BTreeSet<_> = paths.collect();
        Self {
            full_text_paths: paths.into_iter().collect(),
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.full_text_paths.is_empty()
    }
}

/// Returns the vector indexes of these types.
pub(super) fn vector_indexes(documents: &[&DocumentShape]) -> Vec<VectorIndex> {
    let shapes = documents.iter().flat_map(|shape| shape.vectors);
    let indexes = shapes.filter_map(|shape| {
        Some(VectorIndex {
            path: policy_path(shape.path),
            kind: shape.index?,
        })
    });
    let indexes: BTreeSet<_> = indexes.collect();
    indexes.into_iter().collect()
}

/// Returns the full-text indexes of these types.
pub(super) fn full_text_indexes(documents: &[&DocumentShape]) -> Vec<FullTextIndex> {
    let shapes = documents.iter().flat_map(|shape| shape.full_texts);
    let paths: BTreeSet<_> = shapes.map(|shape| policy_path(shape.path)).collect();
    paths
        .into_iter()
        .map(|path| FullTextIndex { path })
        .collect()
}
