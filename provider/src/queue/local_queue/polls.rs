//! What the polls of a queue keep between two polls.

use cdb_client::RangeId;
use cdb_coordination::Windows;

/// The candidates per dispatcher that are enough for a poll, so that one poll serves several fetches.
const PREFETCH_PER_DISPATCHER: u32 = 2;
/// The fewest candidates that are enough. Runtimes that find the same candidates can then begin with
/// different ones.
const MIN_PREFETCH: u32 = 32;

/// The polls of a queue.
#[derive(Debug)]
pub(crate) struct Polls {
    /// The items that are enough for one poll of all physical partitions, if they can run.
    pub(crate) enough: u32,
    pub(crate) windows: Windows<RangeId>,
}

impl Polls {
    /// Returns the polls of a queue with this number of dispatchers.
    pub(super) fn new(dispatchers: u32) -> Self {
        let prefetch = dispatchers.saturating_mul(PREFETCH_PER_DISPATCHER);
        Self {
            enough: prefetch.max(MIN_PREFETCH),
            windows: Windows::default(),
        }
    }
}
