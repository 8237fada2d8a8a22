//! The clock of a test on an account.

use std::time::Duration;

use cdb_client::transport::SimulatedTime;
use tokio::time::Instant;

/// The variable that says that the account takes requests of any date, so that the clock of a test
/// may run ahead.
const ANY_DATE: &str = "COSMOS_ANY_DATE";

/// Whether tests on the account may run in simulated time.
pub(crate) fn may_be_simulated() -> bool {
    std::env::var_os(ANY_DATE).is_some()
}

/// Returns the simulated time of a test with a paused clock. Where it may not be simulated, resumes
/// the clock and returns `None`.
pub(crate) fn simulated_or_resumed() -> Option<SimulatedTime> {
    if may_be_simulated() {
        let time = SimulatedTime::new();
        // The test's clock may run ahead of the account's, which checks no dates.
        drop(time.clock());
        return Some(time);
    }
    // Tokio panics when a running clock is resumed, and does not tell whether it runs. Another
    // backend of the test may have resumed it.
    let before = Instant::now();
    std::thread::sleep(Duration::from_millis(1));
    if Instant::now() == before {
        tokio::time::resume();
    }
    None
}
