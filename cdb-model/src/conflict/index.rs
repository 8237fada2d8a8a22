//! The rules of the document types of a global secondary index.

use super::text::{fail, same};
use crate::container::{Container, MemberOf};
use crate::document::Document;
use crate::query::Projection;
use crate::shape::{DocumentShape, IdSegment};

/// Checks a document type `D` of the global secondary index `container` of `Source`. Its fields are
/// those of a type of the source, which [`Projection`] checks, under the names that they have there.
#[track_caller]
pub const fn check_index<D, Source>(container: &str)
where
    Source: Container,
    D: Document + Projection<Document: MemberOf<Source>>,
{
    let (own, source) = (D::SHAPE, <<D as Projection>::Document as Document>::SHAPE);
    // The stub of a type whose derive has failed.
    if own.partition_key.is_empty() || source.partition_key.is_empty() {
        return;
    }
    check_names::<D>(own, source);
    check_identity(own, source);
    if own.ttl {
        fail(&[
            "documents of `",
            own.name,
            "` have a time to live, but the documents of `",
            container,
            "` expire with those of its source; remove `#[document(ttl)]`",
        ]);
    }
    if !own.unique_keys.is_empty() {
        fail(&[
            "`",
            own.name,
            "` has a unique key, but the service writes the documents of `",
            container,
            "`; declare the unique key in `",
            source.name,
            "`",
        ]);
    }
}

/// Checks that every field has the name of the source's field. The service copies whole properties.
#[track_caller]
const fn check_names<D: Projection>(own: &DocumentShape, source: &DocumentShape) {
    let mut at = 0;
    while at < D::FIELDS.len() {
        let field = &D::FIELDS[at];
        let (_, path) = field.pointer.split_at(1);
        if !same(path, field.name) {
            fail(&[
                "`",
                own.name,
                "` reads `/",
                field.name,
                "` from `",
                field.pointer,
                "` of `",
                source.name,
                "`, but a global secondary index has whole properties under their own names",
            ]);
        }
        at += 1;
    }
}

/// Checks that type and id are those of the source, so that a document names the document that it
/// follows from.
#[track_caller]
const fn check_identity(own: &DocumentShape, source: &DocumentShape) {
    if !same(own.discriminator, source.discriminator) {
        fail(&[
            "`",
            own.name,
            "` has the type `",
            own.discriminator,
            "`, but `",
            source.name,
            "`, from which it follows, has the type `",
            source.discriminator,
            "`; write the same type",
        ]);
    }
    if !same_ids(own.id, source.id) {
        fail(&[
            "`",
            own.name,
            "` has another id pattern than `",
            source.name,
            "`, from which it follows; write the same `id`",
        ]);
    }
}

const fn same_ids(a: &[IdSegment], b: &[IdSegment]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        let equal = match (&a[at], &b[at]) {
            (IdSegment::Literal(a), IdSegment::Literal(b))
            | (IdSegment::Field(a), IdSegment::Field(b)) => same(a, b),
            _ => false,
        };
        if !equal {
            return false;
        }
        at += 1;
    }
    true
}
