//! Request units, from a model that is written down in docs/emulator.md with its sources.
//!
//! Every figure of the service's documentation that a formula here can meet is met by it, and asserted below; the rest
//! are estimates. Good to compare two programs or two policies, not to plan a budget.

/// What a request about databases, containers or offers costs.
pub(crate) const METADATA: f64 = 1.0;

/// What a page of the change feed without changes costs.
pub(crate) const EMPTY_FEED: f64 = 1.0;

/// What a request that is refused costs: the look.
pub(crate) const REFUSED: f64 = 1.0;

/// What reading a document of this size by its id costs.
pub(crate) fn read(bytes: usize) -> f64 {
    (kilobytes(bytes) * 0.091 + 0.909).max(1.0)
}

/// What storing a new document costs: its size, and the index entries that the policy makes of it.
pub(crate) fn insert(bytes: usize, index_entries: usize) -> f64 {
    4.5 + kilobytes(bytes) * 0.455 + count(index_entries) * 0.2
}

/// What changing a document costs: the old entries go and the new ones come.
pub(crate) fn replace(bytes: usize, index_entries: usize) -> f64 {
    2.0 * insert(bytes, index_entries)
}

/// What removing a document costs.
pub(crate) fn delete(index_entries: usize) -> f64 {
    5.0 + count(index_entries) * 0.2
}

/// What a page of a feed costs: the look, and a read per document.
pub(crate) fn feed(documents: usize, bytes: usize) -> f64 {
    2.0 + count(documents) * 0.909 + kilobytes(bytes) * 0.091
}

/// What a page of a query touched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    /// Physical partitions that were asked.
    pub(crate) ranges: usize,
    /// Entries read in indexes.
    pub(crate) index_entries: usize,
    /// Documents loaded, because they are returned or because no index answers the filter.
    pub(crate) documents: usize,
    /// Bytes of these documents.
    pub(crate) bytes: usize,
    /// Bytes of the answer.
    pub(crate) returned: usize,
}

/// What a page of a query costs.
pub(crate) fn query(query: &Query) -> f64 {
    count(query.ranges) * 2.5
        + count(query.index_entries) * 0.01
        + count(query.documents) * 0.035
        + kilobytes(query.bytes) * 0.005
        + kilobytes(query.returned) * 0.3
}

fn kilobytes(bytes: usize) -> f64 {
    count(bytes) / 1024.0
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within a part of the published figure.
    fn is_near(charge: f64, published: f64, part: f64) {
        let off = (charge - published).abs() / published;
        assert!(off <= part, "{charge} instead of {published}");
    }

    #[test]
    fn published_figures_are_met() {
        const KB: usize = 1024;
        // key-value-store-cost: reads of 1 KB and 100 KB, inserts without index.
        is_near(read(KB), 1.0, 0.01);
        is_near(read(100 * KB), 10.0, 0.01);
        is_near(insert(KB, 0), 5.0, 0.01);
        is_near(insert(100 * KB, 0), 50.0, 0.01);
        // optimize-cost-reads-writes: a replace is two inserts.
        is_near(replace(KB, 0), 10.0, 0.01);
        let page = |ranges: usize, documents: usize, bytes, returned| {
            query(&Query {
                ranges,
                index_entries: documents.min(10),
                documents,
                bytes,
                returned,
            })
        };
        // how-to-query-container: "about 2.5 RUs each time you check a physical partition's index".
        is_near(page(4, 0, 0, 0), 10.0, 0.01);
        // troubleshoot-query-performance: a scan of 60,951 documents with 399,998,938 bytes that returns 510.
        is_near(page(1, 60_951, 399_998_938, 510), 4059.95, 0.01);
        // The same: one indexed document of a few KB.
        is_near(page(1, 1, KB, KB), 2.98, 0.05);
        is_near(page(1, 1, 2 * KB, 2 * KB), 3.19, 0.05);
    }
}
