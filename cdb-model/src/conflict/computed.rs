//! Whether all document types compute a property in the same way, because the container computes it
//! for all documents.

use super::place::{Place, stored_path};
use super::text::{fail, same};
use crate::shape::{ComputedShape, DocumentShape, ExpressionPart};

/// Checks that a computed property has no name of a stored property of another type, and the same
/// expression in all types, because the container computes it for all documents.
#[track_caller]
pub const fn check_computed(place: &Place) {
    let shape = place.shape();
    let mut other = 0;
    while other < place.own && !place.is_stub() {
        let first = place.documents[other];
        report_computed_conflict(first, shape);
        report_computed_conflict(shape, first);
        other += 1;
    }
}

#[track_caller]
const fn report_computed_conflict(computing: &DocumentShape, other: &DocumentShape) {
    let mut at = 0;
    while at < computing.computed.len() {
        let computed = &computing.computed[at];
        match computed_as(computed.name, other) {
            Some(same_name) if !same_expression(computed.expression, same_name.expression) => {
                fail(&[
                    "`",
                    computing.name,
                    "` and `",
                    other.name,
                    "` compute `",
                    computed.name,
                    "` in different ways; rename one of them",
                ]);
            }
            None if stored_path(other, computed.name).is_some() => fail(&[
                "`",
                computed.name,
                "` is computed by `",
                computing.name,
                "`, but `",
                other.name,
                "` stores a property of that name; rename one of them",
            ]),
            _ => {}
        }
        at += 1;
    }
}

const fn computed_as(name: &str, shape: &DocumentShape) -> Option<ComputedShape> {
    let mut at = 0;
    while at < shape.computed.len() {
        if same(shape.computed[at].name, name) {
            return Some(shape.computed[at]);
        }
        at += 1;
    }
    None
}

const fn same_expression(a: &[ExpressionPart], b: &[ExpressionPart]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        let equal = match (&a[at], &b[at]) {
            (ExpressionPart::Text(a), ExpressionPart::Text(b))
            | (ExpressionPart::Path(a), ExpressionPart::Path(b)) => same(a, b),
            _ => false,
        };
        if !equal {
            return false;
        }
        at += 1;
    }
    true
}
