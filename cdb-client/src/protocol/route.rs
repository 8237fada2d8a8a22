//! Which regions can serve a request.

/// Which regions can serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The first write region: databases, containers, and their lists of physical partitions.
    Metadata,
    /// The write region of the partition: writes, and reads of the latest committed state.
    Write,
    /// The preferred regions, then the write region.
    Read,
    /// The configured endpoint, which follows the write region by DNS, then all others: the account
    /// document.
    Account,
}
