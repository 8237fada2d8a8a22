//! The unique keys of a container apply to the documents of all its types.
//!
//! The service does not support sparse unique keys: a missing path counts as null
//! (<https://learn.microsoft.com/azure/cosmos-db/unique-keys>). So a partition takes one document
//! that lacks the path, and refuses the next one with 409/3301.

use super::place::Place;
use super::text::{fail, is_path_within, same};
use crate::shape::{CompositeTarget, DocumentShape, IdSegment};

/// The most types that a message names.
const MOST_NAMES: usize = 3;

/// Checks the unique keys of a variant and of the types before it: of the documents that lack a
/// path, a partition can have one at most.
#[track_caller]
pub const fn check_unique(place: &Place) {
    let mut declaring = 0;
    while declaring <= place.own && !place.is_stub() {
        let unique = place.documents[declaring];
        let mut key = 0;
        while key < unique.unique_keys.len() {
            let mut path = 0;
            while path < unique.unique_keys[key].len() {
                let paths = unique.unique_keys[key];
                if let CompositeTarget::Path(pointer) = paths[path] {
                    report_lacking(place, declaring, pointer, has_type(paths));
                }
                path += 1;
            }
            key += 1;
        }
        declaring += 1;
    }
}

/// Whether the key contains the discriminator, so that it compares documents of one type.
const fn has_type(paths: &[CompositeTarget]) -> bool {
    let mut at = 0;
    while at < paths.len() {
        if matches!(paths[at], CompositeTarget::Discriminator) {
            return true;
        }
        at += 1;
    }
    false
}

/// Reports the types that lack a path, unless the types before the variant have the same conflict.
#[track_caller]
const fn report_lacking(place: &Place, declaring: usize, path: &str, by_type: bool) {
    let unique = place.documents[declaring];
    let mut names = [""; MOST_NAMES];
    let (mut lacking, mut documents, mut at) = (0, 0, 0);
    while at <= place.own {
        let shape = place.documents[at];
        let is_alone = by_type && is_single(shape);
        if !shape.partition_key.is_empty() && !is_alone && !has_path(shape, path) {
            if lacking < MOST_NAMES {
                names[lacking] = shape.name;
            }
            lacking += 1;
            documents += if is_single(shape) { 1 } else { 2 };
        }
        at += 1;
    }
    if documents > 1 && (declaring == place.own || !has_path(place.shape(), path)) {
        fail(&[
            "`",
            path,
            "` is in a unique key of `",
            unique.name,
            "`, but is not a field of `",
            names[0],
            if lacking > 1 { "`, `" } else { "" },
            names[1],
            if lacking > 2 { "`, `" } else { "" },
            names[2],
            if lacking > 3 { "`, …" } else { "`" },
            "; the service counts a missing field as null, so a partition takes one document \
             without it: add the field to each type, or move `",
            unique.name,
            "` to a container of its own",
        ]);
    }
}

/// Whether documents of this type have the path, or a field that contains it.
const fn has_path(shape: &DocumentShape, path: &str) -> bool {
    let mut at = 0;
    while at < shape.fields.len() {
        if is_path_within(path, shape.fields[at].path) {
            return true;
        }
        at += 1;
    }
    false
}

/// Whether a partition has at most one document of this type: its id consists of literals and of
/// the partition key.
const fn is_single(shape: &DocumentShape) -> bool {
    let mut at = 0;
    while at < shape.id.len() {
        if let IdSegment::Field(name) = shape.id[at]
            && !is_partition_key(shape, name)
        {
            return false;
        }
        at += 1;
    }
    true
}

const fn is_partition_key(shape: &DocumentShape, name: &str) -> bool {
    let mut at = 0;
    while at < shape.fields.len() {
        let field = &shape.fields[at];
        let mut level = 0;
        while level < shape.partition_key.len() {
            if same(field.name, name) && same(field.path, shape.partition_key[level]) {
                return true;
            }
            level += 1;
        }
        at += 1;
    }
    false
}
