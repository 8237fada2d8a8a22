//! The random numbers of schedules, apart from those of the process: what the nodes draw does not
//! change which faults follow.

use std::ops::Range;
use std::time::Duration;

use cdb_chaos::next_random;

/// A generator (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        let mixed = purpose
            .bytes()
            .fold(seed ^ 0x5851_F42D_4C95_7F2D, |mixed, byte| {
                (mixed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
            });
        Self(mixed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        next_random(&mut self.0)
    }

    /// Returns a number below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    /// Returns a duration in the range, in whole milliseconds.
    pub(crate) fn duration(&mut self, range: Range<Duration>) -> Duration {
        let span = range.end.saturating_sub(range.start).as_millis().max(1);
        let extra = u128::from(self.next()) % span;
        range.start + Duration::from_millis(u64::try_from(extra).unwrap_or(0))
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}
