//! The model of request units. `docs/charges.md` of this crate describes it with its sources.
//!
//! The formulas match the figures of the service's documentation, which the tests below assert.
//! Other numbers are estimates. The model is good enough to compare two programs or two policies,
//! but not to plan a budget.

/// The charge of a request for databases, containers or offers.
pub(crate) const METADATA: f64 = 1.0;

/// The charge of an empty page of the change feed.
pub(crate) const EMPTY_FEED: f64 = 1.0;

/// Returns the charge of a point read.
pub(crate) fn read(bytes: usize) -> f64 {
    (kilobytes(bytes) * 0.091 + 0.909).max(1.0)
}

/// Returns the charge of an insert, by the size of the document and its index entries.
pub(crate) fn insert(bytes: usize, index_entries: usize) -> f64 {
    4.5 + kilobytes(bytes) * 0.455 + count(index_entries) * 0.2
}

/// Returns the charge of a replace, which removes the old index entries and adds the new ones.
pub(crate) fn replace(bytes: usize, index_entries: usize) -> f64 {
    2.0 * insert(bytes, index_entries)
}

/// Returns the charge of a delete.
pub(crate) fn delete(index_entries: usize) -> f64 {
    5.0 + count(index_entries) * 0.2
}

/// Returns the charge of a page of a feed: a base charge, and a read per document.
pub(crate) fn feed(documents: usize, bytes: usize) -> f64 {
    2.0 + count(documents) * 0.909 + kilobytes(bytes) * 0.091
}

/// The inputs of the charge of a query page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryCost {
    /// Physical partitions that were read.
    pub(crate) ranges: usize,
    /// Index entries that were read.
    pub(crate) index_entries: usize,
    /// Documents that were loaded, because they are returned or no index answers the filter.
    pub(crate) documents: usize,
    /// Size of these documents in bytes.
    pub(crate) bytes: usize,
    /// Size of the response in bytes.
    pub(crate) returned: usize,
}

/// Returns the charge of a query page.
pub(crate) fn query(cost: &QueryCost) -> f64 {
    count(cost.ranges) * 2.5
        + count(cost.index_entries) * 0.01
        + count(cost.documents) * 0.035
        + kilobytes(cost.bytes) * 0.005
        + kilobytes(cost.returned) * 0.3
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

    /// Asserts that a charge is within a relative tolerance of the published figure.
    fn is_near(charge: f64, published: f64, tolerance: f64) {
        let off = (charge - published).abs() / published;
        assert!(off <= tolerance, "{charge} instead of {published}");
    }

    #[test]
    fn charges_match_the_published_figures() {
        const KB: usize = 1024;
        // key-value-store-cost: reads of 1 KB and 100 KB, inserts without index.
        is_near(read(KB), 1.0, 0.01);
        is_near(read(100 * KB), 10.0, 0.01);
        is_near(insert(KB, 0), 5.0, 0.01);
        is_near(insert(100 * KB, 0), 50.0, 0.01);
        // optimize-cost-reads-writes: a replace is two inserts.
        is_near(replace(KB, 0), 10.0, 0.01);
        let page = |ranges: usize, documents: usize, bytes, returned| {
            query(&QueryCost {
                ranges,
                index_entries: documents.min(10),
                documents,
                bytes,
                returned,
            })
        };
        // how-to-query-container: "about 2.5 RUs each time you check a physical partition's index".
        is_near(page(4, 0, 0, 0), 10.0, 0.01);
        // troubleshoot-query-performance: a scan of 60,951 documents with 399,998,938 bytes that
        // returns 510.
        is_near(page(1, 60_951, 399_998_938, 510), 4059.95, 0.01);
        // The same: one indexed document of a few KB.
        is_near(page(1, 1, KB, KB), 2.98, 0.05);
        is_near(page(1, 1, 2 * KB, 2 * KB), 3.19, 0.05);
    }
}
