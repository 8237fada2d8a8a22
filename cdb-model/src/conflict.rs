//! Checks between the document types of a container, run by the constant evaluator.
//!
//! Panics are the only way to speak there, and `concat!`-like text the only words: so the names come last, and the
//! underlined variant says which type is meant.

use crate::limits::{MAX_COMPOSITES, MAX_POLICY_PATHS, MAX_UNIQUE_KEYS};
use crate::shape::{DocumentShape, FieldIndexing, IdSegment};

/// Compares document type `own` with the container and with every type before it.
#[track_caller]
pub const fn check_member(
    documents: &[&'static DocumentShape],
    own: usize,
    partition_key: &[&'static str],
    discriminator: &str,
) {
    let shape = documents[own];
    assert!(
        same_paths(shape.partition_key, partition_key),
        "this document type has its partition key at another path than the container; \
         rename the field with `#[serde(rename)]` or mark another one"
    );
    check_discriminator(shape, discriminator);
    let mut at = 0;
    while at < own {
        check_pair(documents[at], shape);
        at += 1;
    }
}

#[track_caller]
const fn check_discriminator(shape: &DocumentShape, discriminator: &str) {
    let mut at = 0;
    while at < shape.fields.len() {
        assert!(
            !is_property(shape.fields[at].path, discriminator),
            "a field of this document type is stored where the container keeps the type; \
             rename the field, or the container's `discriminator`"
        );
        at += 1;
    }
}

#[track_caller]
const fn check_pair(first: &DocumentShape, second: &DocumentShape) {
    assert!(
        !same(first.discriminator, second.discriminator),
        "another document type of this container stores the same `type`; give one of them another"
    );
    assert!(
        !ids_can_collide(first.id, second.id),
        "the id of this document type can equal the id of another one in the same partition; \
         start one of them with a literal of its own"
    );
    assert!(
        !indexing_conflicts(first, second) && !indexing_conflicts(second, first),
        "a path is indexed by one document type and `unindexed` in another one of the same container; \
         choose one of the two"
    );
}

/// Compares the whole container with the service's limits.
#[track_caller]
pub const fn check_limits(documents: &[&'static DocumentShape]) {
    let (mut included, mut excluded, mut composites, mut uniques) = (0, 0, 0, 0);
    let mut at = 0;
    while at < documents.len() {
        composites += documents[at].composites.len();
        uniques += documents[at].unique_keys.len();
        let mut field = 0;
        while field < documents[at].fields.len() {
            match documents[at].fields[field].indexing {
                FieldIndexing::Indexed => included += 1,
                FieldIndexing::Excluded => excluded += 1,
                FieldIndexing::NotIndexed => {}
            }
            field += 1;
        }
        at += 1;
    }
    assert!(
        included < MAX_POLICY_PATHS,
        "the service takes 1500 included paths per container"
    );
    assert!(
        excluded < MAX_POLICY_PATHS,
        "the service takes 1500 excluded paths per container"
    );
    assert!(
        composites <= MAX_COMPOSITES,
        "the service takes 100 composite indexes per container"
    );
    assert!(
        uniques <= MAX_UNIQUE_KEYS,
        "the service takes 10 unique keys per container"
    );
}

const fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && starts_with(a.as_bytes(), b.as_bytes())
}

const fn starts_with(text: &[u8], prefix: &[u8]) -> bool {
    if prefix.len() > text.len() {
        return false;
    }
    let mut at = 0;
    while at < prefix.len() {
        if text[at] != prefix[at] {
            return false;
        }
        at += 1;
    }
    true
}

const fn same_paths(a: &[&str], b: &[&str]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if !same(a[at], b[at]) {
            return false;
        }
        at += 1;
    }
    true
}

/// Whether `path` is `/property`, or begins with it.
const fn is_property(path: &str, property: &str) -> bool {
    let (path, property) = (path.as_bytes(), property.as_bytes());
    if path.len() <= property.len() {
        return false;
    }
    let mut at = 0;
    while at < property.len() {
        if path[at + 1] != property[at] {
            return false;
        }
        at += 1;
    }
    path.len() == property.len() + 1 || path[property.len() + 1] == b'/'
}

/// Whether `blob` excludes by name what `other` indexes.
const fn indexing_conflicts(blob: &DocumentShape, other: &DocumentShape) -> bool {
    let mut at = 0;
    while at < blob.fields.len() {
        if matches!(blob.fields[at].indexing, FieldIndexing::Excluded) {
            let excluded = blob.fields[at].path.as_bytes();
            let mut field = 0;
            while field < other.fields.len() {
                let path = other.fields[field].path.as_bytes();
                let inside = starts_with(path, excluded)
                    && (path.len() == excluded.len() || path[excluded.len()] == b'/');
                if inside && matches!(other.fields[field].indexing, FieldIndexing::Indexed) {
                    return true;
                }
                field += 1;
            }
        }
        at += 1;
    }
    false
}

/// Whether some value of the placeholders makes the two ids equal.
///
/// Components never contain a separator, so two ids are equal when their parts between separators are, one by one; and
/// a part that holds a placeholder is taken to be able to equal anything.
const fn ids_can_collide(a: &[IdSegment], b: &[IdSegment]) -> bool {
    let (mut a, mut b) = (Cursor::new(a), Cursor::new(b));
    loop {
        let (part_a, more_a) = a.next_part();
        let (part_b, more_b) = b.next_part();
        if !part_a.can_equal(&part_b) {
            return false;
        }
        match (more_a, more_b) {
            (Some(x), Some(y)) if x == y => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

/// A part of an id between two separators.
struct Part<'a> {
    /// Its literal beginning.
    prefix: &'a [u8],
    /// Whether a placeholder follows.
    open: bool,
}

impl Part<'_> {
    const fn can_equal(&self, other: &Part<'_>) -> bool {
        match (self.open, other.open) {
            (false, false) => {
                self.prefix.len() == other.prefix.len() && starts_with(self.prefix, other.prefix)
            }
            (true, false) => starts_with(other.prefix, self.prefix),
            (false, true) => starts_with(self.prefix, other.prefix),
            (true, true) => {
                starts_with(self.prefix, other.prefix) || starts_with(other.prefix, self.prefix)
            }
        }
    }
}

struct Cursor<'a> {
    segments: &'a [IdSegment],
    segment: usize,
    byte: usize,
}

impl<'a> Cursor<'a> {
    const fn new(segments: &'a [IdSegment]) -> Self {
        Self {
            segments,
            segment: 0,
            byte: 0,
        }
    }

    /// The next part, and the separator that ends it.
    const fn next_part(&mut self) -> (Part<'a>, Option<u8>) {
        let mut part = Part {
            prefix: &[],
            open: false,
        };
        while self.segment < self.segments.len() {
            match &self.segments[self.segment] {
                IdSegment::Field(_) => {
                    part.open = true;
                    self.segment += 1;
                    self.byte = 0;
                }
                IdSegment::Literal(text) => {
                    let text = text.as_bytes();
                    let start = self.byte;
                    let mut end = start;
                    while end < text.len() && !is_separator(text[end]) {
                        end += 1;
                    }
                    // A literal after a placeholder starts with a separator, so a prefix is never overwritten.
                    if end > start {
                        part.prefix = text.split_at(end).0.split_at(start).1;
                    }
                    if end < text.len() {
                        self.byte = end + 1;
                        return (part, Some(text[end]));
                    }
                    self.segment += 1;
                    self.byte = 0;
                }
            }
        }
        (part, None)
    }
}

const fn is_separator(byte: u8) -> bool {
    matches!(byte, b':' | b'|' | b';' | b',')
}

#[cfg(test)]
mod tests {
    use super::*;
    use IdSegment::{Field, Literal};

    fn check(a: &[IdSegment], b: &[IdSegment], collide: bool) {
        assert_eq!(ids_can_collide(a, b), collide, "{a:?} {b:?}");
        assert_eq!(ids_can_collide(b, a), collide, "{b:?} {a:?}");
    }

    #[test]
    fn ids_collide_only_when_every_part_can() {
        let order = [Field("p"), Literal(":order:"), Field("n")];
        let line = [Field("p"), Literal(":line:"), Field("n")];
        let short = [Field("p"), Literal(":order")];
        let swapped = [Literal("order:"), Field("p"), Literal(":"), Field("n")];
        let other_separator = [Field("p"), Literal("|order|"), Field("n")];
        check(&order, &order, true);
        check(&order, &line, false);
        check(&order, &short, false);
        check(&order, &swapped, true);
        check(&order, &other_separator, false);
        check(&[Literal("meta")], &[Field("p")], true);
        check(&[Literal("meta")], &[Literal("x-"), Field("p")], false);
    }
}
