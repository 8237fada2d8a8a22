//! Merges the indexes that the document types need, in a fixed order.
//!
//! The root is excluded, so only indexed paths cost request units. An included path costs on every
//! document of the container, even on documents that lack it.

use std::collections::BTreeSet;

use super::json::{CompositeIndexPath, ExcludedPath, IncludedPath, IndexingMode, IndexingPolicy};
use super::path::policy_path;
use super::search::{full_text_indexes, vector_indexes};
use crate::shape::{CompositeTarget, Direction, DocumentShape, FieldIndexing};

impl IndexingPolicy {
    /// Returns the policy of these document types. Their order and repetitions do not matter.
    /// `needs_type` is whether queries filter by the discriminator.
    pub(crate) fn merged(
        documents: &[&DocumentShape],
        discriminator: &str,
        mut needs_type: bool,
    ) -> Self {
        let mut included = BTreeSet::new();
        let mut excluded = BTreeSet::from(["/*".to_owned()]);
        let mut composites: BTreeSet<Vec<CompositePathKey>> = BTreeSet::new();
        for field in documents.iter().flat_map(|shape| shape.fields) {
            match field.indexing {
                FieldIndexing::Indexed => {
                    included.insert(match field.path.strip_suffix("/*") {
                        Some(subtree) => format!("{}/*", policy_path(subtree)),
                        None => format!("{}/?", policy_path(field.path)),
                    });
                }
                FieldIndexing::Excluded => {
                    excluded.insert(format!("{}/*", policy_path(field.path)));
                }
                FieldIndexing::NotIndexed => {}
            }
        }
        for composite in documents.iter().flat_map(|shape| shape.composites) {
            let mut paths = Vec::new();
            for path in composite.paths {
                let target = match path.path {
                    CompositeTarget::Path(path) => policy_path(path),
                    CompositeTarget::Discriminator => {
                        needs_type = true;
                        policy_path(&format!("/{discriminator}"))
                    }
                };
                paths.push((target, path.direction == Direction::Descending));
            }
            let inverted = paths
                .iter()
                .map(|(path, down)| (path.clone(), !down))
                .collect();
            // One index serves a sort and its reverse; the smaller of the two represents both.
            composites.insert(std::cmp::min(paths, inverted));
        }
        if needs_type {
            included.insert(format!("{}/?", policy_path(&format!("/{discriminator}"))));
        }
        Self {
            indexing_mode: IndexingMode::Consistent,
            automatic: true,
            included_paths: included
                .into_iter()
                .map(|path| IncludedPath { path })
                .collect(),
            excluded_paths: excluded
                .into_iter()
                .map(|path| ExcludedPath { path })
                .collect(),
            composite_indexes: composites.into_iter().map(composite_index).collect(),
            vector_indexes: vector_indexes(documents),
            full_text_indexes: full_text_indexes(documents),
        }
    }
}

/// A path, and whether it is descending.
type CompositePathKey = (String, bool);

fn composite_index(paths: Vec<CompositePathKey>) -> Vec<CompositeIndexPath> {
    let path = |(path, descending)| CompositeIndexPath {
        path,
        order: if descending {
            Direction::Descending
        } else {
            Direction::Ascending
        },
    };
    paths.into_iter().map(path).collect()
}
