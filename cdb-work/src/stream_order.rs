//! The order of streams in memory, for the owner of a virtual partition.
//!
//! A stream hands out one message at a time: the one after the last message reported as completed.
//! Reports are written later, in order. Pure: no clock, no store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cdb_model::Timestamp;

use super::documents::{Lane, WorkMessage};
use super::status::WorkStatus;

/// How many idle streams are remembered per partition, so that their next message needs no read.
const REMEMBERED: usize = 4096;

/// A stream in one lane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StreamKey {
    lane: Lane,
    stream: Arc<str>,
}

impl StreamKey {
    pub(super) fn new(lane: Lane, stream: &str) -> Self {
        Self {
            lane,
            stream: stream.into(),
        }
    }

    pub(super) fn lane(&self) -> Lane {
        self.lane
    }

    pub(super) fn stream(&self) -> &str {
        &self.stream
    }
}

/// The effect of a report on the stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The message is completed.
    End,
    /// The message has passed stages.
    Progress,
    /// The message failed and is retried.
    Retry,
    /// The message failed too often and holds its stream.
    SetAside,
}

/// The decision after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Retry { due_at: Timestamp },
    SetAside { now: Timestamp },
    Skip,
}

/// The streams of one virtual partition.
#[derive(Debug, Default)]
pub(super) struct Streams {
    known: HashMap<StreamKey, Stream>,
    /// Streams with a message to claim, by the time from which it can be claimed.
    available: BTreeSet<(Timestamp, StreamKey)>,
    /// How many messages are in memory.
    held: usize,
    /// How many streams have unknown progress.
    unknown: usize,
}

#[derive(Debug, Default)]
struct Stream {
    /// The last message stored as completed; `None` until the stream's document was read.
    done: Option<u64>,
    /// The last message reported as completed.
    reported: u64,
    /// The known messages after `done`.
    waiting: BTreeMap<u64, Arc<WorkMessage>>,
    /// The claimed message.
    out: Option<u64>,
    /// Claims of an earlier epoch are void.
    epoch: u64,
    available_at: Option<Timestamp>,
}

impl Stream {
    /// When the next message can be claimed; `None` while a message is claimed or the next one is
    /// unknown.
    fn next_at(&self) -> Option<Timestamp> {
        self.done?;
        let head = self.waiting.get(&(self.reported + 1))?;
        let free = self.out.is_none() && head.dead_since.is_none();
        free.then(|| head.due_at.max(head.waiting_since.unwrap_or_default()))
    }

    /// Whether the stream can continue only with news from the store.
    fn is_stuck(&self) -> bool {
        if self.waiting.is_empty() || self.out.is_some() {
            return false;
        }
        let Some(done) = self.done else { return true };
        let next = self.waiting.get(&(self.reported + 1));
        done == self.reported && next.is_none_or(|next| next.dead_since.is_some())
    }
}

impl Streams {
    /// Adds a message that was found. `starts_here` tells that no message of the stream is
    /// completed.
    pub(super) fn learn(&mut self, message: WorkMessage, starts_here: bool) {
        let key = StreamKey::new(message.lane, &message.stream);
        let stream = self.known.entry(key.clone()).or_insert_with(|| {
            self.unknown += 1;
            Stream::default()
        });
        if starts_here && stream.done.is_none() {
            stream.done = Some(0);
            self.unknown -= 1;
        }
        if stream.done.is_some_and(|done| message.sequence <= done) {
            return;
        }
        // The known message is newer, unless an operator has redriven it.
        let known = stream.waiting.get(&message.sequence);
        if known.is_none_or(|known| known.dead_since.is_some()) {
            let before = stream.waiting.insert(message.sequence, Arc::new(message));
            self.held += usize::from(before.is_none());
        }
        self.refresh(&key);
    }

    /// Takes over the stored progress: all messages up to `done` are completed. Returns `true` if
    /// that is news.
    pub(super) fn learn_done(&mut self, key: &StreamKey, done: u64) -> bool {
        let Some(stream) = self.known.get_mut(key) else {
            return false;
        };
        if stream.done.is_some_and(|known| known >= done) {
            return false;
        }
        if stream.done.is_none() || stream.reported < done {
            if stream.out.is_some_and(|out| out <= done) {
                stream.out = None;
                stream.epoch += 1;
            }
            stream.reported = stream.reported.max(done);
        }
        if stream.done.replace(done).is_none() {
            self.unknown -= 1;
        }
        let rest = stream.waiting.split_off(&(done + 1));
        self.held -= stream.waiting.len();
        stream.waiting = rest;
        self.refresh(key);
        if self.known.len() > REMEMBERED {
            self.known
                .retain(|_, stream| stream.out.is_some() || !stream.waiting.is_empty());
        }
        true
    }

    /// The stream's document was deleted, so its next message has number 1. A stream with known
    /// messages was not idle and stays.
    pub(super) fn forget(&mut self, key: &StreamKey) {
        let at_rest = |stream: &Stream| stream.waiting.is_empty() && stream.out.is_none();
        if self.known.get(key).is_some_and(at_rest) {
            self.known.remove(key);
        }
    }

    /// Whether the progress of a stream is unknown.
    pub(super) fn has_unknown(&self) -> bool {
        self.unknown > 0
    }

    /// The streams that can continue only with news from the store.
    pub(super) fn stuck(&self) -> Vec<StreamKey> {
        let stuck = self.known.iter().filter(|(_, stream)| stream.is_stuck());
        stuck.map(|(key, _)| key.clone()).collect()
    }

    /// Claims the message that has waited longest. Returns it with the epoch of the claim.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<(StreamKey, Arc<WorkMessage>, u64)> {
        let (at, key) = self.available.first()?.clone();
        if at > now {
            return None;
        }
        let stream = self.known.get_mut(&key)?;
        let sequence = stream.reported + 1;
        let message = stream.waiting.get(&sequence)?.clone();
        stream.out = Some(sequence);
        let epoch = stream.epoch;
        self.refresh(&key);
        Some((key, message, epoch))
    }

    /// When the next message can be claimed.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.available.first().map(|(at, _)| *at)
    }

    /// Reports that a message has passed stages, `None` for all. Returns `None` when the claim is
    /// void.
    pub(super) fn reached(
        &mut self,
        (key, sequence, epoch): (&StreamKey, u64, u64),
        stages: Option<WorkStatus>,
    ) -> Option<(Change, Arc<WorkMessage>)> {
        let stream = self.claimed(key, sequence, epoch)?;
        let shared = stream.waiting.get_mut(&sequence)?;
        let message = Arc::make_mut(shared);
        message.status |= stages.unwrap_or(message.needs);
        let change = if message.status.contains(message.needs) {
            stream.out = None;
            stream.reported = sequence;
            Change::End
        } else {
            Change::Progress
        };
        let message = shared.clone();
        self.refresh(key);
        Some((change, message))
    }

    /// Reports that a message failed. Returns `None` when the claim is void.
    pub(super) fn failed(
        &mut self,
        (key, sequence, epoch): (&StreamKey, u64, u64),
        reason: String,
        judge: impl FnOnce(&WorkMessage) -> Verdict,
    ) -> Option<(Change, Arc<WorkMessage>)> {
        let stream = self.claimed(key, sequence, epoch)?;
        let shared = stream.waiting.get_mut(&sequence)?;
        let message = Arc::make_mut(shared);
        message.attempts += 1;
        message.last_failure = Some(reason);
        stream.out = None;
        let change = match judge(message) {
            Verdict::Retry { due_at } => {
                message.due_at = due_at;
                Change::Retry
            }
            Verdict::SetAside { now } => {
                message.dead_since = Some(now);
                message.waiting_since = None;
                Change::SetAside
            }
            Verdict::Skip => {
                message.status |= WorkStatus::SKIPPED;
                stream.reported = sequence;
                Change::End
            }
        };
        let message = shared.clone();
        self.refresh(key);
        Some((change, message))
    }

    /// Returns a claim. Returns `true` if the claim was valid.
    pub(super) fn give_back(&mut self, key: &StreamKey, sequence: u64, epoch: u64) -> bool {
        let held = self.claimed(key, sequence, epoch).map(|stream| {
            stream.out = None;
            stream.epoch += 1;
        });
        self.refresh(key);
        held.is_some()
    }

    /// Discards the reports that are not stored: the stream continues from what is stored.
    pub(super) fn roll_back(&mut self, key: &StreamKey) {
        if let Some(stream) = self.known.get_mut(key) {
            stream.out = None;
            stream.epoch += 1;
            stream.reported = stream.done.unwrap_or_default();
        }
        self.refresh(key);
    }

    /// How many messages are in memory.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Whether no message is claimed and all reports are stored.
    pub(super) fn is_at_rest(&self) -> bool {
        self.known.values().all(|stream| {
            stream.out.is_none() && stream.done.is_none_or(|done| done == stream.reported)
        })
    }

    fn claimed(&mut self, key: &StreamKey, sequence: u64, epoch: u64) -> Option<&mut Stream> {
        let stream = self.known.get_mut(key)?;
        (stream.out == Some(sequence) && stream.epoch == epoch).then_some(stream)
    }

    /// Updates the position of a stream among the available ones.
    fn refresh(&mut self, key: &StreamKey) {
        let Some(stream) = self.known.get_mut(key) else {
            return;
        };
        let at = stream.next_at();
        if at == stream.available_at {
            return;
        }
        if let Some(before) = stream.available_at.take() {
            self.available.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            self.available.insert((at, key.clone()));
        }
        stream.available_at = at;
    }
}

#[cfg(test)]
#[path = "stream_order_tests.rs"]
mod tests;
