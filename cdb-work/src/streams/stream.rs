//! One stream in memory: its name, its progress, and what is decided about its messages.
//!
//! The next message of a stream can be claimed when the one before it is completed. A *suspect* is a message
//! that may have ended the process that handled it: suspects are handed out one at a time (`order.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use cdb_model::Timestamp;
use tokio::time::Instant;

use super::delivery::DeliveryReason;
use super::documents::{Lane, WorkMessage};
use super::status::WorkStatus;

/// The failure of an attempt whose process has ended or lost the partition. Stored: it marks
/// suspects.
pub(crate) const OWNER_LOST: &str =
    "the coordinator that handled the message lost its partition before it reported a result";

/// How many reports of a stream may be unwritten. So the store knows to within this number which
/// messages of a stream were handed out.
pub(crate) const MOST_UNWRITTEN: u64 = 100;

/// How many messages stay in memory behind one that is claimed for long.
const KEPT: u64 = 10;

/// The most bytes of a stored failure: a message must stay below the size limit of documents.
const FAILURE_BYTES: usize = 1000;

/// A stream in one lane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamKey {
    pub(crate) lane: Lane,
    pub(crate) stream: Arc<str>,
}

impl StreamKey {
    pub(crate) fn new(lane: Lane, stream: &str) -> Self {
        Self {
            lane,
            stream: stream.into(),
        }
    }

    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    pub(crate) fn stream(&self) -> &str {
        &self.stream
    }
}

/// The progress of a stream, and its known messages.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The last message stored as completed; `None` until the stream's document was read.
    pub(crate) done: Option<u64>,
    /// The last message reported as completed.
    pub(crate) reported: u64,
    /// The known messages after `done`.
    pub(crate) waiting: BTreeMap<u64, Arc<WorkMessage>>,
    /// The stored stages of messages that have passed others since, by their number.
    pub(crate) stored: BTreeMap<u64, WorkStatus>,
    /// The claimed message.
    pub(crate) out: Option<Out>,
    /// The last message that was handed out here.
    pub(crate) handed_out: u64,
    /// The last message that a former owner may have handed out.
    pub(crate) former_to: u64,
    /// The message whose attempt at a former owner failed.
    pub(crate) failed_before: Option<u64>,
    /// Since when the dead message had waited.
    pub(crate) waited_since: Option<Timestamp>,
    /// Claims of an earlier epoch are void.
    pub(crate) epoch: u64,
    pub(crate) available_at: Option<Timestamp>,
    pub(crate) is_suspect: bool,
    /// Set while messages behind the next one are left out of memory.
    pub(crate) left_out: Option<LeftOut>,
}

/// A claimed message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) sequence: u64,
    pub(crate) since: Instant,
    pub(crate) until: Instant,
}

impl Stream {
    /// When the next message can be claimed; `None` while a message is claimed or the next one is
    /// unknown.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let unwritten = self.reported - self.done?;
        let head = self.waiting.get(&(self.reported + 1))?;
        let free = self.out.is_none() && head.dead_since.is_none() && unwritten < MOST_UNWRITTEN;
        free.then(|| head.due_at.max(head.waiting_since.unwrap_or_default()))
    }

    /// Whether the stream's document was not read.
    pub(crate) fn is_unknown(&self) -> bool {
        self.done.is_none()
    }

    /// Whether a message is the next one, and can be claimed now.
    pub(crate) fn is_due(&self, sequence: u64, now: Timestamp) -> bool {
        sequence == self.reported + 1 && self.next_at().is_some_and(|at| at <= now)
    }

    pub(crate) fn has_claim(&self, claim: StreamClaim<'_>) -> bool {
        let is_out = self.out.is_some_and(|out| out.sequence == claim.sequence);
        is_out && self.epoch == claim.epoch
    }

    /// Whether a former owner may have handed out this message, without a stored trace.
    pub(crate) fn may_be_former(
        &self,
        message: &WorkMessage,
        taken_over_at: Option<Timestamp>,
    ) -> bool {
        let is_first = message.attempts == 0 && message.sequence > self.handed_out;
        let was_due = |at| message.due_at <= at && message.waiting_since.is_some_and(|t| t <= at);
        is_first && message.sequence <= self.former_to && taken_over_at.is_some_and(was_due)
    }

    /// Returns a message before its stages change. Its stored stages are kept until the change is
    /// stored.
    pub(crate) fn before_change(&mut self, sequence: u64) -> Option<&mut WorkMessage> {
        let message = self.waiting.get_mut(&sequence)?;
        self.stored.entry(sequence).or_insert(message.status);
        Some(Arc::make_mut(message))
    }

    /// Notes a stored version of a message. A message that has changed since differs from the store.
    pub(crate) fn note_stored(&mut self, stored: &Arc<WorkMessage>) {
        let sequence = stored.sequence;
        match self.waiting.get(&sequence) {
            Some(message) if !Arc::ptr_eq(message, stored) => {
                self.stored.insert(sequence, stored.status)
            }
            _ => self.stored.remove(&sequence),
        };
    }

    /// Returns the messages from this one on to their stored stages: their reports are discarded.
    pub(crate) fn restore(&mut self, from: u64) {
        for (sequence, status) in self.stored.split_off(&from) {
            if let Some(message) = self.waiting.get_mut(&sequence) {
                Arc::make_mut(message).status = status;
            }
        }
    }

    /// Sets the first known progress.
    pub(crate) fn start_at(&mut self, done: u64) {
        self.done = Some(done);
        self.former_to = done + MOST_UNWRITTEN;
    }

    /// Whether the next message is dead or unknown, and no report is under way.
    pub(crate) fn is_blocked(&self) -> bool {
        let next = self.waiting.get(&(self.reported + 1));
        self.out.is_none()
            && self.done == Some(self.reported)
            && next.is_none_or(|next| next.dead_since.is_some())
    }

    /// The first of the messages that can leave the memory, because they cannot be claimed: before
    /// the time `soon`, or behind a message that was claimed before `slow`. A search finds them
    /// again. A message that differs from the store stays.
    pub(crate) fn first_to_shed(
        &self,
        soon: Timestamp,
        slow: Option<Instant>,
    ) -> Option<(u64, Option<LeftOut>)> {
        if let Some(out) = self.out {
            let first = (out.sequence + 1 + KEPT, Some(LeftOut::Claimed));
            return slow.is_some_and(|slow| out.since < slow).then_some(first);
        }
        let next = self.reported + 1;
        let is_unwritten = self.stored.contains_key(&next);
        if self.is_blocked() {
            return Some((next + u64::from(is_unwritten), Some(LeftOut::Blocked)));
        }
        let is_late = self.next_at().is_some_and(|at| at > soon);
        (is_late && !is_unwritten).then_some((next, None))
    }

    /// Whether a message that is not in memory stays out.
    pub(crate) fn leaves_out(&self, sequence: u64) -> bool {
        match self.left_out {
            Some(LeftOut::Blocked) => self.is_blocked() && sequence > self.reported + 1,
            Some(LeftOut::Claimed) => sequence > self.reported + 1 + KEPT,
            None => false,
        }
    }

    /// Whether messages that were left out can be claimed now, or soon.
    pub(crate) fn needs_left_out(&self) -> bool {
        match self.left_out {
            Some(LeftOut::Blocked) => !self.is_blocked(),
            Some(LeftOut::Claimed) => self.is_blocked(),
            None => false,
        }
    }

    /// Whether the stream has messages and can continue only with news from the store.
    pub(crate) fn is_stuck(&self) -> bool {
        let has_messages = self.left_out.is_some() || !self.waiting.is_empty();
        has_messages && (self.done.is_none() || self.is_blocked())
    }
}

/// The claim of a message in its stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamClaim<'a> {
    pub(crate) key: &'a StreamKey,
    pub(crate) sequence: u64,
    pub(crate) epoch: u64,
}

/// Whether a claim still counts.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimState {
    Valid,
    /// The claim has timed out, was lost, or was returned.
    Void,
}

impl ClaimState {
    /// `Valid` if the claim led to something.
    pub(crate) fn of<T>(found: Option<T>) -> Self {
        found.map_or(Self::Void, |_| Self::Valid)
    }
}

/// What the stored progress of a stream told.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    Known,
    /// The stream has advanced, or its progress was unknown.
    News,
}

/// Why later messages of a stream were left out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// The next message is dead or unknown.
    Blocked,
    /// The message before them is claimed for long.
    Claimed,
}

/// The effect of a report on the stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// An attempt is started.
    Start,
    /// The message is completed.
    End,
    /// The message has passed stages.
    Progress,
    /// The message failed and is retried.
    Retry,
    /// The message failed too often and holds its stream.
    Dead,
}

/// The decision after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Retry { due_at: Timestamp },
    Dead { now: Timestamp },
    Skip,
}

/// A message to hand out.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) key: StreamKey,
    pub(crate) message: Arc<WorkMessage>,
    pub(crate) epoch: u64,
    pub(crate) next: Next,
    /// Whether the message may have ended its last process.
    pub(crate) is_suspect: bool,
}

/// The messages that can be handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    /// Those of one lane, or of both.
    pub(crate) lane: Option<Lane>,
    /// Also a message that may have ended its last process.
    pub(crate) suspects: bool,
}

/// What precedes the hand-out of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing, or the stored start of the attempt.
    HandOut {
        delivery: DeliveryReason,
        store_start: bool,
    },
    /// The failure of the attempt that a former owner started.
    FailEarlierAttempt,
}

/// A claimed message that may have ended its last process.
#[derive(Debug)]
pub(crate) struct Suspect {
    pub(crate) key: StreamKey,
    pub(crate) sequence: u64,
    pub(crate) claimed_at: Instant,
}

/// Cuts the reason of a failure at a character boundary.
pub(crate) fn bounded(mut reason: String) -> String {
    let fits = |at: &usize| reason.is_char_boundary(*at);
    let end = (0..=FAILURE_BYTES.min(reason.len())).rev().find(fits);
    reason.truncate(end.unwrap_or_default());
    reason
}

/// Whether a message may have ended its last process.
pub(crate) fn is_suspect(message: &WorkMessage) -> bool {
    message.attempts > 0 && message.last_failure.as_deref() == Some(OWNER_LOST)
}
