//! The rights that the service has accepted requests with.

use crate::error::RequestKind;

/// The right to read or to write data. Roles usually grant all requests of one right together, so
/// an accepted upsert says that a refused patch is temporary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Right {
    Read,
    Write,
}

impl Right {
    /// Returns the right that a request needs. `None` for metadata, which opening requests: a
    /// missing right must fail it at once, even if another container was opened before.
    pub(super) fn of(kind: RequestKind) -> Option<Self> {
        match kind {
            RequestKind::ReadPhysicalPartitions => Some(Self::Read),
            _ if kind.is_metadata() => None,
            _ if kind.is_read() => Some(Self::Read),
            _ => Some(Self::Write),
        }
    }
}
