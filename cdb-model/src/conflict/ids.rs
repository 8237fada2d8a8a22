//! Whether two id patterns can produce the same id.
//!
//! Escaped components never contain a separator (see [`crate::value::SEPARATORS`]), so the separators split an id
//! in one way only.

use super::place::Place;
use super::text::{fail, starts_with};
use crate::shape::IdSegment;

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

/// Whether the two ids can be equal for some values of their placeholders.
///
/// Two ids are equal if all their parts between separators are equal. A part with a placeholder
/// counts as equal to any part with the same prefix.
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
    /// The literal before the placeholder, or the whole part.
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

    /// Returns the next part, and the separator that ends it.
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
                    // A literal after a placeholder starts with a separator, so a prefix is never
                    // overwritten.
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
    fn ids_collide_only_if_all_their_parts_can_be_equal() {
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
