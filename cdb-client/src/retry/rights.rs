//! The rights that the service has accepted requests with.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use crate::error::RequestKind;

/// The rights of a client's identity, as far as the service has shown them.
#[derive(Debug, Default)]
pub(super) struct Rights(RwLock<BTreeSet<Right>>);

/// The right to read or to write data. Roles usually grant all requests of one right together, so
/// an accepted upsert says that a refused patch is temporary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Right {
    Read,
    Write,
}

impl Right {
    /// Returns the right that a request needs. `None` for metadata, which opening requests: a
    /// missing right must fail it at once, even if another container was opened before.
    fn of(kind: RequestKind) -> Option<Self> {
        match kind {
            RequestKind::ReadPhysicalPartitions => Some(Self::Read),
            _ if kind.is_metadata() => None,
            _ if kind.is_read() => Some(Self::Read),
            _ => Some(Self::Write),
        }
    }
}

impl Rights {
    /// Whether the service has accepted such a request.
    pub(super) fn include(&self, kind: RequestKind) -> bool {
        let granted = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Right::of(kind).is_some_and(|right| granted.contains(&right))
    }

    /// Notes that the service has accepted a request.
    pub(super) fn grant(&self, kind: RequestKind) {
        let Some(right) = Right::of(kind).filter(|_| !self.include(kind)) else {
            return;
        };
        let mut granted = self.0.write().unwrap_or_else(PoisonError::into_inner);
        granted.insert(right);
    }
}
