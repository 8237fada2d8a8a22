//! Whether two document types declare the vectors and texts of a path in the same way, because the
//! container has one vector policy and one full-text policy.

use super::place::Place;
use super::text::{fail, same};
use crate::shape::{DocumentShape, VectorShape};

/// Checks that a path has equal vectors, and texts of one language, in all types.
#[track_caller]
pub const fn check_search(place: &Place) {
    let shape = place.shape();
    let mut other = 0;
    while other < place.own && !place.is_stub() {
        compare(place.documents[other], shape);
        other += 1;
    }
}

#[track_caller]
const fn compare(first: &DocumentShape, second: &DocumentShape) {
    let mut at = 0;
    while at < first.vectors.len() {
        let vector = &first.vectors[at];
        let mut other = 0;
        while other < second.vectors.len() {
            let same_path = same(vector.path, second.vectors[other].path);
            if same_path && !equal(vector, &second.vectors[other]) {
                report(first, second, vector.path, "vectors");
            }
            other += 1;
        }
        at += 1;
    }
    at = 0;
    while at < first.full_texts.len() {
        let text = &first.full_texts[at];
        let mut other = 0;
        while other < second.full_texts.len() {
            let same_path = same(text.path, second.full_texts[other].path);
            if same_path && !same(text.language, second.full_texts[other].language) {
                report(first, second, text.path, "texts");
            }
            other += 1;
        }
        at += 1;
    }
}

const fn equal(a: &VectorShape, b: &VectorShape) -> bool {
    let same_index = match (a.index, b.index) {
        (Some(a), Some(b)) => a as u8 == b as u8,
        (None, None) => true,
        _ => false,
    };
    same_index
        && a.dimensions == b.dimensions
        && a.element as u8 == b.element as u8
        && a.distance as u8 == b.distance as u8
}

#[track_caller]
const fn report(first: &DocumentShape, second: &DocumentShape, path: &str, what: &str) {
    fail(&[
        "`",
        first.name,
        "` and `",
        second.name,
        "` declare the ",
        what,
        " at `",
        path,
        "` in different ways; write the same settings, or rename one of the fields",
    ]);
}
