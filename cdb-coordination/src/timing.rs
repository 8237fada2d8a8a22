//! Every duration of this crate, and how they relate: the defaults of the settings and the constants.
//!
//! The compiler checks the relations of the constants. Messaging and processors check the relations of
//! their settings when they start. Each relation says what it protects.

use std::time::Duration;

// Messages: `MessagingConfig` and `RetryPolicy`.

/// How long a message is reserved for the process that has it in memory.
pub(crate) const RESERVED: Duration = Duration::from_secs(2);
/// How long a message is claimed by the process that runs its handler. Renewed while it runs.
pub(crate) const CLAIM: Duration = Duration::from_secs(30);
/// The interval of the searches for messages that other processes left.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The age until which a message is delivered.
pub(crate) const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
/// The first delay before a failed delivery or receipt is tried again.
pub(crate) const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest delay before a failed delivery or receipt is tried again.
pub(crate) const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// The shortest pause between two attempts to renew a claim or a lease that is about to end.
pub(crate) const SHORTEST_RENEWAL_PAUSE: Duration = Duration::from_millis(10);
/// The shortest delay of a message that arrived out of order. The receipt of the message before it
/// ends the delay.
pub(crate) const OUT_OF_ORDER_BACKOFF: Duration = Duration::from_secs(1);
/// The delay before a process looks again for messages that it has claimed and that wait for
/// earlier ones.
pub(crate) const RECHECK_DELAY: Duration = Duration::from_millis(50);
/// The interval of checking whether a partition in which messages are received still answers.
pub(crate) const SILENCE_CHECK: Duration = Duration::from_millis(500);
/// The interval of checking whether messaging is idle.
pub(crate) const IDLE_CHECK: Duration = Duration::from_millis(20);
/// How long delivered messages wait for others before they are deleted in one request.
pub(crate) const BATCHING_DELAY: Duration = Duration::from_millis(20);
/// The first and the longest delay before a commit that lost a race is tried again.
pub(crate) const LOST_COMMIT: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_millis(500));
/// When an unreadable document is looked at again that is too large to be copied into a dead letter.
pub(crate) const TOO_LARGE: Duration = Duration::from_secs(24 * 3600);

// Leases.

/// The duration of a lease, unless `Leases::with_duration` sets another. Renewed after half of it.
pub(crate) const LEASE: Duration = Duration::from_secs(60);
/// The pause between two sends of a write with an unknown outcome.
pub(crate) const RESEND_PAUSE: Duration = Duration::from_millis(50);
/// The least time until the deadline for which such a write is sent again, of the default deadline.
pub(crate) const LEAST_SEND: Duration = Duration::from_secs(1);
/// The pause between two attempts to store the schema version of a container.
pub(crate) const AGREEMENT_PAUSE: Duration = Duration::from_millis(300);

// Membership: `MembershipConfig`.

/// The interval between heartbeats.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(3);
/// The shortest interval between heartbeats.
pub(crate) const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(100);
/// After how many intervals without a heartbeat a member has failed for the others, and counts
/// itself as unheard.
pub(crate) const MISSED_HEARTBEATS: u32 = 3;
/// The timeout of leaving. After it, the failure detectors of the others remove this member.
pub(crate) const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// By how much the longest wait grows with every try to change the roster.
pub(crate) const ROSTER_PAUSE: Duration = Duration::from_millis(20);

// Change feed: `ChangeProcessorConfig`.

/// The duration of the lease of a part.
pub(crate) const PART_LEASE: Duration = Duration::from_secs(30);
/// The interval between heartbeats of a processor.
pub(crate) const FEED_HEARTBEAT: Duration = Duration::from_secs(2);
/// The pause before the next read of a part without new changes.
pub(crate) const FEED_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The longest delay before a failed handler of changes runs again.
pub(crate) const LONGEST_FEED_RETRY: Duration = Duration::from_secs(60);
/// The pause before the next look at the parts, when this process reads its whole share.
pub(crate) const ASSIGNMENT_INTERVAL: Duration = Duration::from_secs(10);
/// The pause while another process still holds a part of this share, or after an error.
pub(crate) const ASSIGNMENT_RETRY: Duration = Duration::from_secs(1);
/// The interval at which the lag grows while a handler runs.
pub(crate) const LAG_INTERVAL: Duration = Duration::from_secs(5);

// Limits.

/// The longest duration that is added to a time. Without a limit the sum may not be representable:
/// an `Instant` overflows, and JSON numbers are exact only up to 2^53.
pub(crate) const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
/// The longest retention, about 17 years: the record of a stream has the longest time to live that
/// the service knows.
pub(crate) const LONGEST_RETENTION: Duration = Duration::from_secs(i32::MAX as u64 / 4 - 1);

/// Returns the least time until a deadline for which a write is sent again.
pub(crate) fn least_send(deadline: Duration) -> Duration {
    LEAST_SEND.min(deadline / 30)
}

const fn at_most(short: Duration, long: Duration) -> bool {
    short.as_nanos() <= long.as_nanos()
}

const _: () = {
    // A process extends its reservation to a claim, and never shortens it.
    assert!(at_most(RESERVED, CLAIM));
    // A third of a reservation and of a claim pass before the first renewal, which has another
    // third for its request. One renewal may fail before another process claims the message.
    assert!(at_most(times(SHORTEST_RENEWAL_PAUSE, 3), RESERVED));
    assert!(at_most(times(SHORTEST_RENEWAL_PAUSE, 6), PART_LEASE));
    // A process finds the messages that it has claimed before others may.
    assert!(at_most(RECHECK_DELAY, RESERVED));
    // A partition that does not answer keeps a permit for less than a search for its messages.
    assert!(at_most(SILENCE_CHECK, POLL_INTERVAL));
    // An attempt to agree on the schema version ends before the next one begins.
    assert!(at_most(times(AGREEMENT_PAUSE, 2), POLL_INTERVAL));
    // A delivered message is deleted before the reconciler of another process delivers it again.
    assert!(at_most(BATCHING_DELAY, RESERVED));
    // A message that another process left is found by the second search after it is due.
    assert!(at_most(POLL_INTERVAL, RESERVED));
    // A message out of order is not held back for longer than a failed one.
    assert!(at_most(OUT_OF_ORDER_BACKOFF, LONGEST_RETRY));
    // Callers of a commit wait for other commits, and no longer for one than for a search.
    assert!(at_most(LOST_COMMIT.0, LOST_COMMIT.1));
    assert!(at_most(LOST_COMMIT.1, POLL_INTERVAL));
    // A message has all its attempts, and an unreadable one several looks, while it may be delivered.
    assert!(at_most(FIRST_RETRY, LONGEST_RETRY));
    assert!(at_most(times(LONGEST_RETRY, 10), RETENTION));
    assert!(at_most(times(TOO_LARGE, 2), RETENTION));
    // A message whose process has died is received by another before it is too old.
    assert!(at_most(times(CLAIM, 10), RETENTION));
    assert!(at_most(RETENTION, LONGEST_RETENTION));

    // The holder of a lease knows the outcome of a write before the half of the lease at which it
    // renews.
    assert!(at_most(times(RESEND_PAUSE, 8), LEASE));

    // A member that joins beside many others is on the roster before they miss its heartbeat.
    assert!(at_most(times(ROSTER_PAUSE, 16), HEARTBEAT));
    assert!(at_most(SHORTEST_HEARTBEAT, HEARTBEAT));
    // A member that leaves waits no longer than the failure detectors of the others need.
    assert!(at_most(LEAVE_TIMEOUT, times(HEARTBEAT, MISSED_HEARTBEATS)));
    assert!(at_most(
        LEAVE_TIMEOUT,
        times(FEED_HEARTBEAT, MISSED_HEARTBEATS)
    ));

    // The others free the parts of a killed process before their leases end.
    assert!(at_most(
        times(FEED_HEARTBEAT, MISSED_HEARTBEATS),
        PART_LEASE
    ));
    // A part whose lease has ended is found within another third of a lease.
    assert!(at_most(ASSIGNMENT_RETRY, ASSIGNMENT_INTERVAL));
    assert!(at_most(times(ASSIGNMENT_INTERVAL, 3), PART_LEASE));
    assert!(at_most(FIRST_RETRY, LONGEST_FEED_RETRY));
};

const fn times(duration: Duration, factor: u32) -> Duration {
    duration.saturating_mul(factor)
}

/// Two durations of a configuration that do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{short}` is {short_value:?}, longer than `{long}`, which is {long_value:?}: set one of them"
)]
pub struct TimingError {
    short: &'static str,
    short_value: Duration,
    long: &'static str,
    long_value: Duration,
}

impl TimingError {
    /// Checks that the first duration of each relation is at most the second one.
    ///
    /// # Errors
    /// When it is longer.
    #[doc(hidden)]
    pub fn check(
        relations: &[(&'static str, Duration, &'static str, Duration)],
    ) -> Result<(), Self> {
        match relations.iter().find(|relation| relation.1 > relation.3) {
            None => Ok(()),
            Some(&(short, short_value, long, long_value)) => Err(Self {
                short,
                short_value,
                long,
                long_value,
            }),
        }
    }
}
