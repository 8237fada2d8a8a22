//! The state between two searches for due intents.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cdb_client::RangeId;
use cdb_model::Timestamp;

use crate::poll::Ranges;

/// The state between two searches.
#[derive(Debug, Default)]
pub(crate) struct IntentSearch {
    pub(super) ranges: Ranges,
    /// The creation time from which on the next search of a partition continues.
    cursors: Mutex<HashMap<RangeId, Timestamp>>,
    searches: AtomicUsize,
}

impl IntentSearch {
    /// Returns the cursor of a partition; `None` at the oldest intent.
    pub(super) fn cursor(&self, range: &RangeId) -> Option<Timestamp> {
        let cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        cursors.get(range).copied()
    }

    /// Moves the cursor of a partition. `None` lets the next search start with the oldest intent.
    pub(super) fn move_cursor(&self, range: &RangeId, to: Option<Timestamp>) {
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        match to {
            Some(to) => cursors.insert(range.clone(), to),
            None => cursors.remove(range),
        };
    }

    /// Lets each search begin with another partition.
    pub(super) fn rotate(&self, ranges: &mut [RangeId]) {
        let searches = self.searches.fetch_add(1, Ordering::Relaxed);
        let first = searches % ranges.len().max(1);
        ranges.rotate_left(first);
    }
}
