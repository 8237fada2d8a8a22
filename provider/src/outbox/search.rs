//! The state between two searches for due intents.

use std::sync::atomic::{AtomicUsize, Ordering};

use cdb_client::RangeId;
use cdb_coordination::Windows;

/// The state between two searches.
#[derive(Debug, Default)]
pub(crate) struct IntentSearch {
    pub(super) windows: Windows<RangeId>,
    searches: AtomicUsize,
}

impl IntentSearch {
    /// Lets each search begin with another partition.
    pub(super) fn rotate(&self, ranges: &mut [RangeId]) {
        let searches = self.searches.fetch_add(1, Ordering::Relaxed);
        let first = searches % ranges.len().max(1);
        ranges.rotate_left(first);
    }
}
