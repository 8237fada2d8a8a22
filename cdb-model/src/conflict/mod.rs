//! Checks between the document types of a container, which the compiler evaluates as constants.
//!
//! `derive(Container)` sees the names of types, not their attributes, so these checks work on the
//! shapes. A check reports by a panic; `#[track_caller]` on all functions locates it at the
//! variant, without a note into this file. A shape without a partition key is the stub of a type
//! whose derive has failed, and is not checked.

mod ids;
mod search;
mod text;
mod unique;

pub use search::check_search;
pub use unique::check_unique;

use crate::container::{Container, DefaultTtl};
use crate::shape::{ComputedShape, DocumentShape, ExpressionPart, FieldIndexing};
use crate::value::PartitionKeyFields;
use ids::ids_can_collide;
use text::{fail, is_path_within, is_property, number, same};

/// A variant and its container.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    container: &'static str,
    partition_key: &'static [&'static str],
    discriminator: &'static str,
    default_ttl: DefaultTtl,
    /// All types of the container.
    documents: &'static [&'static DocumentShape],
    /// The index of the variant's type, which is compared with the types before it.
    own: usize,
}

impl Place {
    /// Returns the variant of `C` with this index from the end.
    pub const fn new<C: Container>(container: &'static str, from_end: usize) -> Self {
        Self {
            container,
            partition_key: C::PARTITION_KEY,
            discriminator: C::DISCRIMINATOR,
            default_ttl: C::DEFAULT_TTL,
            documents: C::DOCUMENTS,
            own: C::DOCUMENTS.len() - from_end,
        }
    }

    const fn shape(&self) -> &'static DocumentShape {
        self.documents[self.own]
    }

    /// Whether the derive of the container or of the document has failed.
    const fn is_stub(&self) -> bool {
        self.partition_key.is_empty() || self.shape().partition_key.is_empty()
    }
}

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

/// Checks that no field of the document is stored as the discriminator.
#[track_caller]
pub const fn check_discriminator(place: &Place) {
    let shape = place.shape();
    if place.is_stub() {
        return;
    }
    if let Some(path) = stored_path(shape, place.discriminator) {
        fail(&[
            "a field of `",
            shape.name,
            "` is stored at `",
            path,
            "`, where the container `",
            place.container,
            "` stores the discriminator; rename the field or the container's `discriminator`",
        ]);
    }
}

/// Checks that the discriminator differs from those of the types before.
#[track_caller]
pub const fn check_type(place: &Place) {
    let shape = place.shape();
    let mut other = 0;
    while other < place.own && !place.is_stub() {
        let first = place.documents[other];
        if same(first.discriminator, shape.discriminator) && !first.partition_key.is_empty() {
            fail(&[
                "`",
                first.name,
                "` and `",
                shape.name,
                "` have the same `",
                place.discriminator,
                "`; change one of them",
            ]);
        }
        other += 1;
    }
}

/// Checks that ids of the document type differ from those of the types before.
#[track_caller]
pub const fn check_ids(place: &Place) {
    let shape = place.shape();
    let mut other = 0;
    while other < place.own && !place.is_stub() {
        let first = place.documents[other];
        if !first.partition_key.is_empty() && ids_can_collide(first.id, shape.id) {
            fail(&[
                "ids of `",
                first.name,
                "` and `",
                shape.name,
                "` can be equal in one partition; write a different literal at the same place of both, such as `{…}:",
                shape.discriminator,
                "`",
            ]);
        }
        other += 1;
    }
}

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

/// Returns the path of the property if the document stores it.
const fn stored_path(shape: &DocumentShape, name: &str) -> Option<&'static str> {
    let mut at = 0;
    while at < shape.fields.len() {
        if is_property(shape.fields[at].path, name) {
            return Some(shape.fields[at].path);
        }
        at += 1;
    }
    // A flattened partition key is not among the fields.
    let mut level = 0;
    while level < shape.partition_key.len() {
        if is_property(shape.partition_key[level], name) {
            return Some(shape.partition_key[level]);
        }
        level += 1;
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

/// Checks that the container enables expiry if the document has a `ttl`, which has no effect
/// otherwise.
#[track_caller]
pub const fn check_ttl(place: &Place) {
    if place.shape().ttl.is_some()
        && !place.is_stub()
        && matches!(place.default_ttl, DefaultTtl::Off)
    {
        fail(&[
            "documents of `",
            place.shape().name,
            "` have a time to live, but the container `",
            place.container,
            "` disables expiry; remove its `default_ttl = \"off\"`",
        ]);
    }
}
