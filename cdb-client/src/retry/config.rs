//! How long a call may try.

use std::time::Duration;

/// Limits of one request. All attempts, and the waits between them, stay inside [`deadline`](Self::deadline).
///
/// What is made of many requests has this time for each of them: a query for each page of each physical partition, a
/// bootstrap for each step. A bulk stops sending operations again after the deadline, and then waits for those that are on
/// their way. For a limit on the whole, put a time-out around it, `tokio::time::timeout` for example: reads can be
/// dropped at any time, and a write that is dropped is one without an answer.
///
/// ```
/// use std::time::Duration;
/// use cdb_client::RetryConfig;
///
/// let patient = RetryConfig::default().with_deadline(Duration::from_secs(300));
/// assert_eq!(patient.attempt_timeout, Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryConfig {
    /// From the first attempt to giving up, 30 s by default (what the official clients spend on throttling).
    pub deadline: Duration,
    /// For one attempt, 10 s by default, of which connecting takes 5 s at most. The service gives up after 5 s by itself;
    /// less than that makes outcomes unknown that need not be.
    pub attempt_timeout: Duration,
    /// The first wait, 10 ms by default; doubles each time.
    pub first_delay: Duration,
    /// The longest wait, 2 s by default, also when the service asks for more.
    pub longest_delay: Duration,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(30),
            attempt_timeout: Duration::from_secs(10),
            first_delay: Duration::from_millis(10),
            longest_delay: Duration::from_secs(2),
        }
    }
}

impl RetryConfig {
    /// Sets the time for the whole call.
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the time for one attempt.
    pub fn with_attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Sets the first and the longest wait between attempts.
    pub fn with_delays(mut self, first: Duration, longest: Duration) -> Self {
        self.first_delay = first;
        self.longest_delay = longest;
        self
    }
}
