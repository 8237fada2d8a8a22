//! Checks between the document types of a container, run by the constant evaluator and reported at the variant.
//!
//! A `derive(Container)` sees names of types, not their attributes, so these checks work on the shapes. A panic is the
//! only way to speak here; `#[track_caller]` all the way puts it at the variant, without a note into this file.
//! A shape without a partition key is the stub of a type whose derive has failed: nothing is compared with it.

mod ids;
mod limits;
mod text;

pub use limits::check_limits;

use crate::container::{Container, DefaultTtl};
use crate::shape::{DocumentShape, FieldIndexing};
use ids::ids_can_collide;
use text::{fail, is_path_within, is_property, number, same};

/// A variant, and what it is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    container: &'static str,
    partition_key: &'static [&'static str],
    discriminator: &'static str,
    default_ttl: DefaultTtl,
    /// All types of the container.
    documents: &'static [&'static DocumentShape],
    /// Which of them is the variant's; it is compared with those before it.
    own: usize,
}

impl Place {
    /// The variant of `C` that stands `from_end` places before the end.
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

    /// Whether one of the two derives has failed.
    const fn is_stub(&self) -> bool {
        self.partition_key.is_empty() || self.shape().partition_key.is_empty()
    }
}

/// The document type has its partition key where the container has it.
#[track_caller]
pub const fn check_partition_key(place: &Place) {
    let (own, expected) = (place.shape().partition_key, place.partition_key);
    if place.is_stub() {
        return;
    }
    if own.len() != expected.len() {
        fail(&[
            "`",
            place.shape().name,
            "` has a partition key of ",
            number(own.len()),
            ", the container `",
            place.container,
            "` one of ",
            number(expected.len()),
        ]);
    }
    let mut level = 0;
    while level < own.len() {
        if !same(own[level], expected[level]) {
            fail(&[
                "`",
                place.shape().name,
                "` has its partition key at `",
                own[level],
                "`, the container `",
                place.container,
                "` at `",
                expected[level],
                "`",
            ]);
        }
        level += 1;
    }
}

/// The container keeps the type where the document has no field.
#[track_caller]
pub const fn check_discriminator(place: &Place) {
    let shape = place.shape();
    if place.is_stub() {
        return;
    }
    let mut at = 0;
    while at < shape.fields.len() {
        if is_property(shape.fields[at].path, place.discriminator) {
            fail(&[
                "`",
                shape.fields[at].name,
                "` of `",
                shape.name,
                "` is stored at `",
                shape.fields[at].path,
                "`, where the container `",
                place.container,
                "` keeps the type; rename the field or the container's `discriminator`",
            ]);
        }
        at += 1;
    }
}

/// The document type can be told apart from the types before.
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
                "` store the same `",
                place.discriminator,
                "`; give one another",
            ]);
        }
        other += 1;
    }
}

/// No id of the document type can be one of a type before, in the same partition.
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
                "` can be equal in one partition; start one of them with a literal of its own",
            ]);
        }
        other += 1;
    }
}

/// No path is indexed for one type and excluded by name for another: the container has one policy.
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
                "` and `",
                excluded,
                "` unindexed by `",
                excluding.name,
                "` in the same container; choose one",
            ]);
        }
        at += 1;
    }
}

/// The path of `excluding` that excludes `path` by name.
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

/// A `ttl` of a document counts only where the container's expiry is on.
#[track_caller]
pub const fn check_ttl(place: &Place) {
    if place.shape().ttl && !place.is_stub() && matches!(place.default_ttl, DefaultTtl::Off) {
        fail(&[
            "documents of `",
            place.shape().name,
            "` have a time to live, which the container `",
            place.container,
            "` turns off; remove `default_ttl = \"off\"` from it",
        ]);
    }
}
