//! The server's clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time.
#[expect(
    clippy::disallowed_methods,
    reason = "the emulator is the service, and its clock decides"
)]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// Returns the current time in seconds since the epoch, the form of `_ts`.
pub(crate) fn now_secs() -> i64 {
    let since = now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
