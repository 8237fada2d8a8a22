//! The order of streams in memory, for the owner of a virtual partition.
//!
//! A stream hands out one message at a time: the one after the last message reported as completed.
//! Reports are written later, in order. Pure: no clock, no store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use cdb_model::Timestamp;
use tokio::time::Instant;

use super::delivery::DeliveryReason;
use super::documents::{Lane, WorkMessage};
use super::status::WorkStatus;
use super::stream::{
    Change, ClaimState, LeftOut, Next, Out, Progress, Selection, Stream, StreamClaim, StreamKey,
    Suspect, Taken, Verdict, bounded, is_suspect,
};
use crate::timing::SUSPECT_ALONE;

/// How many idle streams are remembered per partition, so that their next message needs no read.
const REMEMBERED: usize = 4096;

/// The streams of one virtual partition.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    known: HashMap<StreamKey, Stream>,
    /// Streams with a message to claim, by the time from which it can be claimed, in each lane.
    available: BTreeMap<Lane, BTreeSet<(Timestamp, StreamKey)>>,
    /// Those among them whose message may have ended its last process.
    suspects: BTreeSet<(Timestamp, StreamKey)>,
    /// The last handed out of these messages.
    suspect: Option<Suspect>,
    /// How many messages of each lane are in memory.
    in_memory: BTreeMap<Lane, usize>,
    /// The fence of the partition.
    fence: u64,
    /// When the partition was taken from an owner that had not released it.
    taken_over_at: Option<Timestamp>,
    /// No claim ends earlier.
    first_timeout: Option<Instant>,
    /// Set when messages that were left out can be claimed now.
    left_out: Option<LeftOut>,
    /// How many streams were forgotten. A message that was read before that does not tell where its
    /// stream starts.
    pub(crate) forgotten: u64,
}

impl Streams {
    /// The streams of a partition that was taken with a fence.
    pub(crate) fn new(fence: u64, taken_over_at: Option<Timestamp>) -> Self {
        Self {
            fence,
            taken_over_at,
            ..Self::default()
        }
    }

    /// The fence of the partition.
    pub(crate) fn fence(&self) -> u64 {
        self.fence
    }

    /// Adds a message that was found. `starts_here` tells that no message of the stream is
    /// completed.
    pub(crate) fn learn(&mut self, message: WorkMessage, starts_here: bool) {
        let key = StreamKey::new(message.lane, &message.stream);
        let stream = self.known.entry(key.clone()).or_default();
        if starts_here && stream.done.is_none() {
            stream.start_at(0);
        }
        if stream.done.is_some_and(|done| message.sequence <= done) {
            return;
        }
        // The known message is newer, unless an operator has redriven it, which changes the time
        // since which it waits.
        let known = stream.waiting.get(&message.sequence);
        if known.is_none() && stream.leaves_out(message.sequence) {
            return;
        }
        let is_redriven = |known: &Arc<WorkMessage>| {
            known.dead_since.is_some() && message.waiting_since != stream.waited_since
        };
        if known.is_none_or(is_redriven) {
            let before = stream.waiting.insert(message.sequence, Arc::new(message));
            *self.in_memory.entry(key.lane).or_default() += usize::from(before.is_none());
        }
        self.refresh(&key);
    }

    /// Takes over the stored progress: all messages up to `done` are completed.
    pub(crate) fn learn_done(&mut self, key: &StreamKey, done: u64) -> Progress {
        let Some(stream) = self.known.get_mut(key) else {
            return Progress::Known;
        };
        if stream.done.is_some_and(|known| known >= done) {
            return Progress::Known;
        }
        if stream.done.is_none() || stream.reported < done {
            if stream.out.is_some_and(|out| out.sequence <= done) {
                stream.out = None;
                stream.epoch += 1;
            }
            stream.reported = stream.reported.max(done);
        }
        if stream.done.is_none() {
            stream.start_at(done);
        }
        stream.done = Some(done);
        stream.stored = stream.stored.split_off(&(done + 1));
        let rest = stream.waiting.split_off(&(done + 1));
        *self.in_memory.entry(key.lane).or_default() -= stream.waiting.len();
        stream.waiting = rest;
        self.refresh(key);
        if self.known.len() > REMEMBERED {
            let before = self.known.len();
            self.known
                .retain(|_, stream| stream.out.is_some() || !stream.waiting.is_empty());
            self.forgotten += u64::try_from(before - self.known.len()).unwrap_or(u64::MAX);
        }
        Progress::News
    }

    /// Forgets the messages of a stream without a document: they were read before the document was
    /// deleted, because a stored message has one.
    pub(crate) fn learn_missing(&mut self, key: &StreamKey) {
        let missing = self.known.get(key);
        if let Some(stream) = missing.filter(|stream| stream.done.is_none()) {
            *self.in_memory.entry(key.lane).or_default() -= stream.waiting.len();
            self.known.remove(key);
        }
    }

    /// The stream's document was deleted, so its next message has number 1. A stream with known
    /// messages was not idle and stays.
    pub(crate) fn forget(&mut self, key: &StreamKey) {
        let at_rest = |stream: &Stream| stream.waiting.is_empty() && stream.out.is_none();
        if self.known.get(key).is_some_and(at_rest) {
            self.known.remove(key);
            self.forgotten += 1;
        }
    }

    /// Leaves messages out of memory that cannot be claimed before the time `soon`, or that are
    /// behind a message that was claimed before `slow`. Otherwise they would keep other messages
    /// out.
    pub(crate) fn shed(&mut self, soon: Timestamp, slow: Option<Instant>) {
        let streams = self.known.iter();
        let streams = streams
            .filter_map(|(key, stream)| Some((key.clone(), stream.first_to_shed(soon, slow)?)));
        for (key, (first, reason)) in streams.collect::<Vec<_>>() {
            if let Some(stream) = self.known.get_mut(&key) {
                let left_out = stream.waiting.split_off(&first);
                *self.in_memory.entry(key.lane).or_default() -= left_out.len();
                if left_out.range(stream.reported + 2..).next().is_some() {
                    stream.left_out = reason;
                }
            }
            self.refresh(&key);
        }
    }

    /// Tells once that messages that were left out can be claimed now, and why they were.
    #[must_use]
    pub(crate) fn take_left_out(&mut self) -> Option<LeftOut> {
        self.left_out.take()
    }

    /// The streams whose document was not read.
    pub(crate) fn unknown(&self) -> Vec<StreamKey> {
        let unknown = self.known.iter().filter(|(_, stream)| stream.is_unknown());
        unknown.map(|(key, _)| key.clone()).collect()
    }

    /// The streams that can continue only with news from the store.
    pub(crate) fn stuck(&self) -> Vec<StreamKey> {
        let stuck = self.known.iter().filter(|(_, stream)| stream.is_stuck());
        stuck.map(|(key, _)| key.clone()).collect()
    }

    /// The stream of a selection whose message has waited longest.
    pub(crate) fn first_due(&self, selection: Selection, now: Timestamp) -> Option<StreamKey> {
        let (at, key) = self.first(selection)?;
        (*at <= now).then(|| key.clone())
    }

    /// Whether a message can be claimed now.
    pub(crate) fn is_due(&self, key: &StreamKey, sequence: u64, now: Timestamp) -> bool {
        let stream = self.known.get(key);
        stream.is_some_and(|stream| stream.is_due(sequence, now))
    }

    /// Claims the next message of a stream.
    pub(crate) fn take(
        &mut self,
        key: StreamKey,
        during: Range<Instant>,
        max_attempts: u32,
    ) -> Option<Taken> {
        let stream = self.known.get_mut(&key)?;
        let sequence = stream.reported + 1;
        let former = stream.may_be_former(stream.waiting.get(&sequence)?, self.taken_over_at);
        let message = Arc::make_mut(stream.waiting.get_mut(&sequence)?);
        let is_new = sequence > stream.handed_out;
        let next = if is_new
            && message
                .started_under
                .is_some_and(|under| under != self.fence)
        {
            stream.failed_before = Some(sequence);
            Next::FailEarlierAttempt
        } else {
            if former {
                // One attempt is left, because the former owner may not have handed it out.
                message.attempts = 1.min(max_attempts.saturating_sub(1));
            }
            let is_started = message.started_under == Some(self.fence);
            let delivery = if former || (is_new && stream.failed_before == Some(sequence)) {
                DeliveryReason::TakenOver
            } else if message.attempts > 0 {
                DeliveryReason::Retried
            } else {
                DeliveryReason::New
            };
            stream.handed_out = sequence;
            Next::HandOut {
                delivery,
                store_start: delivery != DeliveryReason::New && !is_started,
            }
        };
        let message = stream.waiting.get(&sequence)?.clone();
        stream.out = Some(Out {
            sequence,
            since: during.start,
            until: during.end,
        });
        let first = self.first_timeout.get_or_insert(during.end);
        *first = during.end.min(*first);
        let (epoch, is_suspect) = (stream.epoch, is_suspect(&message));
        if is_suspect {
            self.suspect = Some(Suspect {
                key: key.clone(),
                sequence,
                claimed_at: during.start,
            });
        }
        self.refresh(&key);
        Some(Taken {
            key,
            message,
            epoch,
            next,
            is_suspect,
        })
    }

    fn first(&self, Selection { lane, suspects }: Selection) -> Option<&(Timestamp, StreamKey)> {
        let is_wanted = |at: Lane| lane.is_none_or(|lane| lane == at);
        let lanes = self.available.iter().filter(|(at, _)| is_wanted(**at));
        let first = lanes.filter_map(|(_, streams)| streams.first()).min();
        let mut known = self.suspects.iter();
        let suspect = known.find(|(_, key)| suspects && is_wanted(key.lane));
        first.into_iter().chain(suspect).min()
    }

    /// When the next message of a selection can be claimed.
    pub(crate) fn next_at(&self, selection: Selection) -> Option<Timestamp> {
        self.first(selection).map(|(at, _)| *at)
    }

    /// Whether a message that may have ended its last process was claimed a moment ago and still is,
    /// or is reported as completed and not stored.
    pub(crate) fn has_suspect_in_hand(&self, now: Instant) -> bool {
        let Some(suspect) = &self.suspect else {
            return false;
        };
        let sequence = suspect.sequence;
        now.saturating_duration_since(suspect.claimed_at) < SUSPECT_ALONE
            && self.known.get(&suspect.key).is_some_and(|stream| {
                let is_out = stream.out.is_some_and(|out| out.sequence == sequence);
                is_out || (stream.reported >= sequence && stream.waiting.contains_key(&sequence))
            })
    }

    /// Notes that the start of an attempt is stored.
    pub(crate) fn started(&mut self, claim: StreamClaim<'_>) -> ClaimState {
        let fence = self.fence;
        let claimed = self.claimed(claim);
        let message = claimed.and_then(|stream| stream.waiting.get_mut(&claim.sequence));
        let noted = message.map(|message| Arc::make_mut(message).started_under = Some(fence));
        ClaimState::of(noted)
    }

    /// Lets a claim last until `until`.
    pub(crate) fn renew(&mut self, claim: StreamClaim<'_>, until: Instant) -> ClaimState {
        let out = self.claimed(claim);
        let out = out.and_then(|stream| stream.out.as_mut());
        ClaimState::of(out.map(|out| out.until = until))
    }

    /// Returns the state of a claim.
    pub(crate) fn state_of(&self, claim: StreamClaim<'_>) -> ClaimState {
        let stream = self.known.get(claim.key);
        ClaimState::of(stream.filter(|stream| stream.has_claim(claim)))
    }

    /// The claims that have timed out: stream, sequence number and epoch.
    pub(crate) fn timed_out(&mut self, now: Instant) -> Vec<(StreamKey, u64, u64)> {
        if self.first_timeout.is_none_or(|first| first > now) {
            return Vec::new();
        }
        let out =
            |(key, stream): (&StreamKey, &Stream)| Some((key.clone(), stream.epoch, stream.out?));
        let (over, running): (Vec<_>, Vec<_>) = self
            .known
            .iter()
            .filter_map(out)
            .partition(|(_, _, out)| out.until <= now);
        self.first_timeout = running.into_iter().map(|(_, _, out)| out.until).min();
        let over = over.into_iter();
        over.map(|(key, epoch, out)| (key, out.sequence, epoch))
            .collect()
    }

    /// Whether a message was claimed before `time`, and still is.
    pub(crate) fn has_claim_before(&self, time: Instant) -> bool {
        let out = |stream: &Stream| stream.out.is_some_and(|out| out.since < time);
        self.known.values().any(out)
    }

    /// Reports that a message has passed stages, `None` for all. Returns `None` when the claim is
    /// void.
    pub(crate) fn reached(
        &mut self,
        claim: StreamClaim<'_>,
        stages: Option<WorkStatus>,
    ) -> Option<(Change, Arc<WorkMessage>)> {
        let StreamClaim { key, sequence, .. } = claim;
        let stream = self.claimed(claim)?;
        let message = stream.before_change(sequence)?;
        message.status |= stages.unwrap_or(message.needs);
        let change = if message.status.contains(message.needs) {
            stream.out = None;
            stream.reported = sequence;
            Change::End
        } else {
            Change::Progress
        };
        let message = stream.waiting.get(&sequence)?.clone();
        self.refresh(key);
        Some((change, message))
    }

    /// Reports that a message failed. Returns `None` when the claim is void.
    pub(crate) fn failed(
        &mut self,
        claim: StreamClaim<'_>,
        reason: String,
        judge: impl FnOnce(&WorkMessage) -> Verdict,
    ) -> Option<(Change, Arc<WorkMessage>)> {
        self.claimed(claim)?;
        self.fail(claim.key, claim.sequence, reason, judge)
    }

    /// Returns a claim to its stream.
    pub(crate) fn give_back(&mut self, claim: StreamClaim<'_>) -> ClaimState {
        let held = self.claimed(claim).map(|stream| {
            stream.out = None;
            stream.epoch += 1;
        });
        self.refresh(claim.key);
        ClaimState::of(held)
    }

    /// Notes that the service rejected the report of a message for good: the attempt failed. The later
    /// reports of the stream are void.
    pub(crate) fn rejected(
        &mut self,
        key: &StreamKey,
        sequence: u64,
        reason: String,
        judge: impl FnOnce(&WorkMessage) -> Verdict,
    ) -> Option<(Change, Arc<WorkMessage>)> {
        let stream = self.known.get_mut(key)?;
        stream.reported = sequence - 1;
        stream.restore(sequence);
        self.fail(key, sequence, reason, judge)
    }

    fn fail(
        &mut self,
        key: &StreamKey,
        sequence: u64,
        reason: String,
        judge: impl FnOnce(&WorkMessage) -> Verdict,
    ) -> Option<(Change, Arc<WorkMessage>)> {
        let stream = self.known.get_mut(key)?;
        stream.out = None;
        stream.epoch += 1;
        let message = stream.before_change(sequence)?;
        message.attempts += 1;
        message.started_under = None;
        message.last_failure = Some(bounded(reason));
        let change = match judge(message) {
            Verdict::Retry { due_at } => {
                (message.due_at, message.retrying) = (due_at, true);
                Change::Retry
            }
            Verdict::Dead { now } => {
                message.dead_since = Some(now);
                let waited_since = message.waiting_since.take();
                stream.waited_since = waited_since;
                Change::Dead
            }
            Verdict::Skip => {
                message.status |= WorkStatus::SKIPPED;
                stream.reported = sequence;
                Change::End
            }
        };
        let message = stream.waiting.get(&sequence)?.clone();
        self.refresh(key);
        Some((change, message))
    }

    /// Notes that a report is stored, which left its message like this.
    pub(crate) fn stored(&mut self, key: &StreamKey, message: &Arc<WorkMessage>) {
        if let Some(stream) = self.known.get_mut(key) {
            stream.note_stored(message);
        }
    }

    /// Discards the reports that are not stored: the stream continues from what is stored.
    pub(crate) fn roll_back(&mut self, key: &StreamKey) {
        if let Some(stream) = self.known.get_mut(key) {
            stream.out = None;
            stream.epoch += 1;
            stream.reported = stream.done.unwrap_or_default();
            stream.restore(0);
            stream.waited_since = None;
        }
        self.refresh(key);
    }

    /// How many messages of a lane are in memory.
    pub(crate) fn in_memory(&self, lane: Lane) -> usize {
        self.in_memory.get(&lane).copied().unwrap_or_default()
    }

    /// Whether no message is claimed and all reports are stored.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.known.values().all(|stream| {
            stream.out.is_none() && stream.done.is_none_or(|done| done == stream.reported)
        })
    }

    fn claimed(&mut self, claim: StreamClaim<'_>) -> Option<&mut Stream> {
        let stream = self.known.get_mut(claim.key)?;
        stream.has_claim(claim).then_some(stream)
    }

    /// Updates the position of a stream among the available ones.
    fn refresh(&mut self, key: &StreamKey) {
        let Some(stream) = self.known.get_mut(key) else {
            return;
        };
        if stream.needs_left_out() {
            self.left_out = stream.left_out.take();
        }
        let at = stream.next_at();
        let head = stream.waiting.get(&(stream.reported + 1));
        let is_suspect = head.is_some_and(|head| is_suspect(head));
        if (at, is_suspect) == (stream.available_at, stream.is_suspect) {
            return;
        }
        if let Some(before) = stream.available_at.take() {
            let place = (before, key.clone());
            self.suspects.remove(&place);
            if let Some(streams) = self.available.get_mut(&key.lane) {
                streams.remove(&place);
            }
        }
        if let Some(at) = at {
            let streams = if is_suspect {
                &mut self.suspects
            } else {
                self.available.entry(key.lane).or_default()
            };
            streams.insert((at, key.clone()));
        }
        (stream.available_at, stream.is_suspect) = (at, is_suspect);
    }
}

#[cfg(test)]
#[path = "tests/order.rs"]
mod tests;
