//! The limits of a key, for all runtimes together.

use std::time::Duration;

/// The limits of a key. The default limits nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The time of the last change of the rules: a newer rule has a larger version.
    pub(crate) version: i64,
    /// The most items that run at a time.
    pub(crate) running: Option<i64>,
    /// The time between two starts, the inverse of a rate.
    pub(crate) interval: Option<Duration>,
}

impl Rule {
    /// Returns the limit that the document counts by.
    pub(crate) fn cap(&self) -> i64 {
        self.running.unwrap_or(0)
    }

    /// Returns whether nothing may start.
    pub(crate) fn is_paused(&self) -> bool {
        self.running == Some(0)
    }

    /// Returns the position among the keys of an item: smaller caps first, rates last. A permit that waits for the
    /// next key is then one of many, and a slot does not wait at all.
    pub(crate) fn place(&self) -> (bool, i64) {
        let is_rate_only = self.running.is_none() && self.interval.is_some();
        (is_rate_only, self.running.unwrap_or(i64::MAX))
    }
}
