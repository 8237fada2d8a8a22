//! Points in time, distinct from plain integers.
//!
//! This module never reads a clock: callers that compare times choose the clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_EXACT_INTEGER;

/// Milliseconds since the Unix epoch. Stored as a JSON number, so the latest one is in the year 287396.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Creates a timestamp from milliseconds since the Unix epoch. A later one than the service can
    /// store exactly becomes the latest one.
    pub const fn from_millis(millis: u64) -> Self {
        if millis > MAX_EXACT_INTEGER {
            return Self(MAX_EXACT_INTEGER);
        }
        Self(millis)
    }

    /// Creates a timestamp from seconds since the Unix epoch, the unit of `_ts`.
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_millis(secs.saturating_mul(1000))
    }

    /// Returns the milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(millis))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}
