//! How long what is remembered. The only rules of outbox and inbox that rest on time, with wide margins between them.
//!
//! Everything follows from the retention `R`. A message is delivered until it is `R` old, so a receiver need not wait
//! longer than `5/4 R` for one that is missing; it is received until it is `2 R` old, and the record of what was received
//! lives for `4 R`, so no copy of a message meets a receiver that has forgotten it. A stream that nothing was sent on for
//! `2 R` is forgotten by its sender: by then none of its messages is received any more, so the next stream between the
//! same partitions cannot overtake it.

use std::time::Duration;

use cdb_model::Timestamp;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    retention: Duration,
}

impl Lifetimes {
    pub(crate) fn new(retention: Duration) -> Self {
        Self { retention }
    }

    /// Whether a message may still be delivered. Later, nobody could tell whether it had been before.
    pub(crate) fn is_deliverable(self, sent_at: Timestamp, now: Timestamp) -> bool {
        now.since(sent_at) <= self.retention
    }

    /// Whether no message that was sent before this one can arrive any more.
    pub(crate) fn is_gap_closed(self, sent_at: Timestamp, now: Timestamp) -> bool {
        now.since(sent_at) > self.retention * 5 / 4
    }

    /// Whether a message may still be received. Later, the record of its first copy may have expired.
    pub(crate) fn is_receivable(self, sent_at: Timestamp, now: Timestamp) -> bool {
        now.since(sent_at) <= self.retention * 2
    }

    /// Seconds that a sender remembers a stream after its last message.
    pub(crate) fn stream_ttl(self) -> u32 {
        seconds(self.retention * 2)
    }

    /// Seconds that a receiver remembers a stream after the last message it received.
    pub(crate) fn seen_ttl(self) -> u32 {
        seconds(self.retention * 4)
    }
}

/// Rounded up: remembering longer does no harm.
fn seconds(duration: Duration) -> u32 {
    let seconds = duration.as_secs().saturating_add(1);
    u32::try_from(seconds).map_or(i32::MAX.unsigned_abs(), |seconds| {
        seconds.min(i32::MAX.unsigned_abs())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_received_is_remembered_longer_than_any_copy_of_it_can_come() {
        for secs in [1, 60, 7 * 24 * 3600] {
            let retention = Duration::from_secs(secs);
            let lifetimes = Lifetimes::new(retention);
            let sent = Timestamp::from_secs(1_000);
            let last_received = sent + retention * 2;
            assert!(lifetimes.is_receivable(sent, last_received));
            assert!(!lifetimes.is_deliverable(sent, last_received));
            // Received at once, at the earliest, and remembered from then on.
            let forgotten = sent + Duration::from_secs(u64::from(lifetimes.seen_ttl()));
            assert!(forgotten > last_received + retention);
            let new_stream = sent + Duration::from_secs(u64::from(lifetimes.stream_ttl()));
            assert!(!lifetimes.is_receivable(sent, new_stream));
        }
    }

    #[test]
    fn a_gap_is_closed_only_when_nothing_can_arrive_in_it() {
        let lifetimes = Lifetimes::new(Duration::from_secs(100));
        let sent = Timestamp::from_secs(1_000);
        let at = |secs| sent + Duration::from_secs(secs);
        assert!(lifetimes.is_deliverable(sent, at(100)));
        assert!(!lifetimes.is_gap_closed(sent, at(125)));
        assert!(lifetimes.is_gap_closed(sent, at(126)));
    }

    #[test]
    fn an_absurd_retention_is_a_long_time_and_no_overflow() {
        let lifetimes = Lifetimes::new(Duration::from_secs(u64::from(u32::MAX)));
        assert_eq!(lifetimes.seen_ttl(), i32::MAX.unsigned_abs());
    }
}
