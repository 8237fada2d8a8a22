//! The time of day, which compares timed points of different processes.

use std::time::SystemTime;

/// Now, by the clock that all processes of this machine share.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that asks for the time of day"
)]
pub fn now() -> SystemTime {
    SystemTime::now()
}
