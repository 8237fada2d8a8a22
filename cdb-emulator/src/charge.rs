//! Request units, from a model that is written down in docs/emulator.md with its sources.
//!
//! The figures are those of the service's documentation where it gives any (1 RU to read 1 KB, about 5 to insert it, a
//! replace costs two inserts, at least 2.5 per physical partition that a query asks) and estimates where it does not.

/// What reading a document of this size by its id costs.
pub(crate) fn read(bytes: usize) -> f64 {
    (kilobytes(bytes) * 0.1 + 0.9).max(1.0)
}

/// What storing a new document costs: its size, and what the policy indexes of it.
pub(crate) fn insert(bytes: usize, indexed_terms: usize) -> f64 {
    4.5 + kilobytes(bytes) * 0.5 + count(indexed_terms) * 0.2
}

/// What changing a document costs: the old entries go and the new ones come.
pub(crate) fn replace(bytes: usize, indexed_terms: usize) -> f64 {
    2.0 * insert(bytes, indexed_terms)
}

/// What removing a document costs.
pub(crate) fn delete(indexed_terms: usize) -> f64 {
    5.0 + count(indexed_terms) * 0.2
}

/// What a query costs in one physical partition: the base, documents loaded, bytes returned.
pub(crate) fn query(loaded: usize, returned_bytes: usize) -> f64 {
    2.5 + count(loaded) * 0.04 + kilobytes(returned_bytes) * 0.3
}

/// What a page of the change feed without changes costs.
pub(crate) const EMPTY_FEED: f64 = 1.0;

/// What a page of a feed costs: the look, and a read per document ("about 2 RU, then each read a point read").
pub(crate) fn feed(documents: usize, bytes: usize) -> f64 {
    2.0 + count(documents) * 0.9 + kilobytes(bytes) * 0.1
}

/// What a request about databases, containers or offers costs.
pub(crate) const METADATA: f64 = 1.0;

/// What a write that failed a condition costs: the look at the document.
pub(crate) const REFUSED: f64 = 1.0;

fn kilobytes(bytes: usize) -> f64 {
    count(bytes) / 1024.0
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}
