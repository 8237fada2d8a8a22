//! Whether a document type has the partition key of its container.

use super::place::Place;
use super::text::{fail, number, same};
use crate::value::PartitionKeyFields;

/// Checks that document type and container have the same partition key.
#[track_caller]
pub const fn check_partition_key(place: &Place) {
    let (own, expected) = (place.shape().partition_key, place.partition_key);
    if place.is_stub() || same_paths(own, expected) {
        return;
    }
    let (what, other) = match type_with_key(place) {
        Some(name) => ("`", name),
        None => ("the container `", place.container),
    };
    let mut level = 0;
    while level < own.len() && own.len() == expected.len() {
        if !same(own[level], expected[level]) {
            fail(&[
                "`",
                place.shape().name,
                "` has its partition key at `",
                own[level],
                "`, but ",
                what,
                other,
                "` has it at `",
                expected[level],
                "`",
            ]);
        }
        level += 1;
    }
    fail(&[
        "`",
        place.shape().name,
        "` has a partition key of ",
        number(own.len()),
        ", but ",
        what,
        other,
        "` has one of ",
        number(expected.len()),
    ]);
}

/// Returns the name of the first type that has the partition key of the container, which is that of
/// the type unless it is given.
const fn type_with_key(place: &Place) -> Option<&'static str> {
    let mut at = 0;
    while at < place.documents.len() {
        if same_paths(place.documents[at].partition_key, place.partition_key) {
            return Some(place.documents[at].name);
        }
        at += 1;
    }
    None
}

const fn same_paths(a: &[&str], b: &[&str]) -> bool {
    let mut level = 0;
    while level < a.len() && level < b.len() && same(a[level], b[level]) {
        level += 1;
    }
    level == a.len() && level == b.len()
}

/// Returns the paths of a flattened partition key. Fails if the document stores another field at one
/// of them.
#[track_caller]
pub const fn flattened_key<K: PartitionKeyFields>(others: &[&str]) -> &'static [&'static str] {
    let mut level = 0;
    while level < K::PATHS.len() {
        let mut other = 0;
        while other < others.len() {
            if same(others[other], K::PATHS[level]) {
                fail(&[
                    "the partition key and another field are both stored at `",
                    K::PATHS[level],
                    "`; rename one of them",
                ]);
            }
            other += 1;
        }
        level += 1;
    }
    K::PATHS
}
