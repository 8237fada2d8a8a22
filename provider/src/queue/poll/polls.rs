//! What the polls of a queue keep between two polls.

use cdb_client::RangeId;
use cdb_coordination::Windows;

/// The polls of a queue.
#[derive(Debug)]
pub(crate) struct Polls {
    /// The items that are enough for one poll of all physical partitions, if they can run.
    pub(super) enough: u32,
    pub(super) windows: Windows<RangeId>,
}

impl Polls {
    pub(crate) fn new(enough: u32) -> Self {
        Self {
            enough,
            windows: Windows::default(),
        }
    }
}
