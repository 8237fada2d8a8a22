//! Whether two document types declare the index of a path in the same way, because the container has
//! one indexing policy.

use super::place::Place;
use super::text::{fail, is_path_within};
use crate::shape::{DocumentShape, FieldIndexing};

/// Checks that no type excludes a path that another type indexes, because the container has one
/// policy.
#[track_caller]
pub const fn check_indexing(place: &Place) {
    let shape = place.shape();
    let mut other = 0;
    while other < place.own && !place.is_stub() {
        let first = place.documents[other];
        report_excluded_index(first, shape);
        report_excluded_index(shape, first);
        other += 1;
    }
}

#[track_caller]
const fn report_excluded_index(indexing: &DocumentShape, excluding: &DocumentShape) {
    let mut at = 0;
    while at < indexing.fields.len() {
        let field = &indexing.fields[at];
        if matches!(field.indexing, FieldIndexing::Indexed)
            && let Some(excluded) = excluded_prefix(field.path, excluding)
        {
            fail(&[
                "`",
                field.path,
                "` is indexed by `",
                indexing.name,
                "`, but `",
                excluded,
                "` is unindexed by `",
                excluding.name,
                "` in the same container; choose one",
            ]);
        }
        at += 1;
    }
}

/// Returns the path of `excluding` that excludes `path`.
const fn excluded_prefix(path: &str, excluding: &DocumentShape) -> Option<&'static str> {
    let mut at = 0;
    while at < excluding.fields.len() {
        let field = &excluding.fields[at];
        if matches!(field.indexing, FieldIndexing::Excluded) && is_path_within(path, field.path) {
            return Some(field.path);
        }
        at += 1;
    }
    None
}
