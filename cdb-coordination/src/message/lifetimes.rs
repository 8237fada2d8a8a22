//! How long messages and records live: the only rules of outbox and inbox that depend on time.
//!
//! All times derive from the retention `R`. A message is delivered until its age is `R`, so a
//! receiver stops waiting for a missing message at `5/4 R`. A message is received until its age is
//! `2 R`. The record of received messages lives for `4 R`, so a receiver recognises every copy of a
//! message. A sender forgets a stream `2 R` after its last message. By then no message of that
//! stream is received any more, so a new stream between the same partitions cannot overtake the old
//! one.

use std::time::Duration;

use cdb_model::Timestamp;

use crate::timing::LONGEST_RETENTION;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    retention: Duration,
}

impl Lifetimes {
    pub(crate) fn new(retention: Duration) -> Self {
        Self {
            retention: retention.min(LONGEST_RETENTION),
        }
    }

    /// Returns `true` while a message may be delivered. Later, an earlier delivery could no longer
    /// be detected.
    pub(crate) fn is_deliverable(self, sent_at: Timestamp, now: Timestamp) -> bool {
        now.since(sent_at) <= self.retention
    }

    /// Returns `true` when no message that was sent before this one can arrive any more.
    pub(crate) fn is_gap_closed(self, sent_at: Timestamp, now: Timestamp) -> bool {
        now.since(sent_at) > self.retention * 5 / 4
    }

    /// Returns `true` while a message may be received. Later, the record of an earlier receipt may
    /// have expired.
    pub(crate) fn is_receivable(self, sent_at: Timestamp, now: Timestamp) -> bool {
        now.since(sent_at) <= self.retention * 2
    }

    /// The time to live of a stream document in seconds, from its last message.
    pub(crate) fn stream_ttl(self) -> u32 {
        seconds(self.retention * 2)
    }

    /// The time to live of a receiver's record in seconds, from the last receipt.
    pub(crate) fn seen_ttl(self) -> u32 {
        seconds(self.retention * 4)
    }

    /// The time to live of the answer to a request in seconds.
    pub(crate) fn answer_ttl(self) -> u32 {
        seconds(self.retention)
    }
}

/// Rounds up, because a longer life does no harm.
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
    fn a_record_outlives_every_copy_of_its_messages() {
        for secs in [1, 60, 7 * 24 * 3600] {
            let retention = Duration::from_secs(secs);
            let lifetimes = Lifetimes::new(retention);
            let sent = Timestamp::from_secs(1_000);
            let last_received = sent + retention * 2;
            assert!(lifetimes.is_receivable(sent, last_received));
            assert!(!lifetimes.is_deliverable(sent, last_received));
            // The earliest receipt is at the time of sending. The record lives from then on.
            let forgotten = sent + Duration::from_secs(u64::from(lifetimes.seen_ttl()));
            assert!(forgotten > last_received + retention);
            let new_stream = sent + Duration::from_secs(u64::from(lifetimes.stream_ttl()));
            assert!(!lifetimes.is_receivable(sent, new_stream));
        }
    }

    #[test]
    fn a_gap_closes_when_no_earlier_message_can_arrive() {
        let lifetimes = Lifetimes::new(Duration::from_secs(100));
        let sent = Timestamp::from_secs(1_000);
        let at = |secs| sent + Duration::from_secs(secs);
        assert!(lifetimes.is_deliverable(sent, at(100)));
        assert!(!lifetimes.is_gap_closed(sent, at(125)));
        assert!(lifetimes.is_gap_closed(sent, at(126)));
    }

    #[test]
    fn a_huge_retention_does_not_overflow() {
        let lifetimes = Lifetimes::new(Duration::MAX);
        let sent = Timestamp::from_secs(1_000);
        let later = sent + Duration::from_secs(3_600);
        assert!(lifetimes.is_deliverable(sent, later));
        assert!(lifetimes.is_receivable(sent, later));
        assert!(!lifetimes.is_gap_closed(sent, later));
        assert!(lifetimes.stream_ttl() < lifetimes.seen_ttl());
    }
}
