//! Where the requests to a physical partition go.

use std::sync::Arc;

use tokio::time::Instant;

use super::circuit::LONGEST;

/// The regions of a physical partition, as far as they differ from those of the account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeEndpoints {
    /// The endpoint of the region that has its writes. `None` for the account's write region.
    pub writes: Option<Arc<str>>,
    /// The endpoint of the last request without an answer, and the time.
    pub(super) silent: Option<(Arc<str>, Instant)>,
}

impl RangeEndpoints {
    /// Whether requests prefer other regions to this one.
    pub(crate) fn avoids(&self, endpoint: &Arc<str>, now: Instant) -> bool {
        let silent = self.silent.as_ref();
        silent.is_some_and(|(silent, since)| silent == endpoint && now - *since < LONGEST)
    }
}
