//! Deadlines and delays of a call.

use std::time::Duration;

/// The limits of one request. All attempts and the delays between them stay within
/// [`deadline`](Self::deadline).
///
/// An operation of several requests has this time for each of them: a query for each page of each
/// physical partition, a bootstrap for each step. A bulk stops retrying operations at the deadline,
/// and then waits for the requests in flight. To limit the whole operation, use
/// [`within_deadline`](crate::retry::within_deadline), which cuts its requests short, or a timeout such as
/// `tokio::time::timeout`: a read can be dropped at any time, and a dropped write has an unknown
/// outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryConfig {
    /// The time for all attempts together, 30 s by default (the official clients' limit for
    /// throttling).
    pub deadline: Duration,
    /// The same for a request about the account, a database or a container that is throttled; 80 s
    /// by default, as long as `duroxide-cdb` waits when it opens a container. These requests share a
    /// small budget of the account, which many processes that start together exhaust.
    pub opening_deadline: Duration,
    /// The time for one attempt, 10 s by default. Connecting takes at most 5 s of it. The
    /// service itself gives up after 5 s; a shorter timeout causes avoidable unknown outcomes.
    pub attempt_timeout: Duration,
    /// The first delay, 10 ms by default; it doubles each time.
    pub first_delay: Duration,
    /// The longest delay, 2 s by default, even when the service asks for more.
    pub longest_delay: Duration,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(30),
            opening_deadline: Duration::from_secs(80),
            attempt_timeout: Duration::from_secs(10),
            first_delay: Duration::from_millis(10),
            longest_delay: Duration::from_secs(2),
        }
    }
}

impl RetryConfig {
    /// Sets the time for all attempts together.
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the time for all attempts of a throttled request for the account, a database or a
    /// container.
    pub fn with_opening_deadline(mut self, deadline: Duration) -> Self {
        self.opening_deadline = deadline;
        self
    }

    /// Sets the time for one attempt.
    pub fn with_attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Sets the first and the longest delay between attempts.
    pub fn with_delays(mut self, first: Duration, longest: Duration) -> Self {
        self.first_delay = first;
        self.longest_delay = longest;
        self
    }
}
