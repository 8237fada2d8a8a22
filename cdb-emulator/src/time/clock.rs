//! The service's clock. Everything that the service does by time follows it: dates of signatures,
//! `_ts`, expiry, throughput, faults, failovers, lagging replicas and index transformations.
//!
//! The only module that reads the machine's clocks. What measures the machine, such as the time of
//! a query in its metrics, uses [`stopwatch`].

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock of the service.
#[derive(Clone)]
pub(crate) enum Clock {
    /// The machine's clocks. They were read first at this instant.
    Machine(Instant),
    /// The clock of a test or of a simulation.
    Simulated(Arc<dyn Fn() -> SystemTime + Send + Sync>),
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine(_) => "Machine",
            Self::Simulated(_) => "Simulated",
        })
    }
}

impl Clock {
    pub(crate) fn machine() -> Self {
        Self::Machine(stopwatch())
    }

    /// Returns a clock that begins with the machine's time and then follows Tokio's clock, also a
    /// paused one.
    pub(crate) fn tokio() -> Self {
        let (time, start) = (system_time(), tokio::time::Instant::now());
        Self::Simulated(Arc::new(move || time + start.elapsed()))
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> SystemTime {
        match self {
            Self::Machine(_) => system_time(),
            Self::Simulated(now) => now(),
        }
    }

    /// Returns the current time in seconds since the epoch, the form of `_ts`.
    pub(crate) fn now_secs(&self) -> i64 {
        let since = self.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }

    /// Returns the time since a fixed moment. It does not follow changes of the machine's date, so
    /// durations are measured with it.
    pub(crate) fn monotonic(&self) -> Duration {
        match self {
            Self::Machine(start) => start.elapsed(),
            Self::Simulated(now) => now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }
}

/// Begins to measure the machine.
pub(crate) fn stopwatch() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the emulator is the service, and its clock decides"
)]
fn system_time() -> SystemTime {
    SystemTime::now()
}
