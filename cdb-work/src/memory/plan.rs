//! Plans one transactional batch from entries: the operations, their conditions, and the entry
//! behind each operation.
//!
//! Three conditions carry all guarantees. The fence of the partition: only its owner completes
//! messages. `next` of a stream: concurrent writers get different sequence numbers. `done` of a
//! stream: a message is completed once, after the one before it. All of them are in the batch that
//! writes, so no guarantee rests on a read.

use std::collections::{BTreeMap, HashMap};

use cdb_model::operation::{BatchError, OperationIndex};
use cdb_model::{Batch, Document as _, Patch, Timestamp};
use tokio::time::Instant;

use super::queue::{NotedReport, Pending, PendingKind};
use crate::error::WorkError;
use crate::streams::documents::{
    EventHead, EventHeadKey, StreamEvent, Work, WorkMessage, WorkMessageKey, WorkPartition,
    WorkPartitionKey, WorkStream, WorkStreamKey,
};
use crate::streams::new_work::NewWork;
use crate::streams::status::WorkStatus;
use crate::streams::stream::{Change, StreamKey};

/// What is known of streams. An unknown stream counts as new; if it exists, the store refuses.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// The next sequence number of each stream of messages.
    pub(crate) streams: HashMap<StreamKey, u64>,
    /// The version of each stream of events.
    pub(crate) events: HashMap<String, u64>,
    /// The batch whose outcome is unknown. It is sent again as it is before another one is planned.
    pub(crate) unproven: Option<Plan>,
    /// The end of the last failed flush, and its error.
    failure: Option<(Instant, WorkError)>,
}

impl Heads {
    /// Notes the end of a flush.
    pub(crate) fn note_end(&mut self, flushed: &Result<(), WorkError>) {
        let error = flushed.as_ref().err().cloned();
        self.failure = error.map(|error| (Instant::now(), error));
    }

    /// Fails a flush that began to wait before the end of a failed one: otherwise each caller would
    /// wait in line for a failure of its own.
    pub(crate) fn check_since(&self, began: Instant) -> Result<(), WorkError> {
        match &self.failure {
            Some((at, error)) if *at > began => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Forgets the streams when more than `most` are known.
    pub(crate) fn limit(&mut self, most: usize) {
        if self.streams.len() + self.events.len() > most {
            self.streams.clear();
            self.events.clear();
        }
    }

    /// Takes over the results of a plan that was written.
    pub(crate) fn apply(&mut self, plan: &Plan) {
        let streams = plan.heads.iter();
        self.streams
            .extend(streams.map(|(key, next)| (key.clone(), *next)));
        let events = plan.events.iter();
        self.events
            .extend(events.map(|(stream, version)| (stream.clone(), *version)));
    }
}

/// The context of a plan.
#[derive(Debug)]
pub(crate) struct PlanContext<'a> {
    pub(crate) partition: &'a str,
    pub(crate) now: Timestamp,
    /// The token of the batch.
    pub(crate) token: String,
    pub(crate) lease: Option<Fence<'a>>,
    /// The time to live of completed messages in seconds.
    pub(crate) remember: u32,
}

/// The condition of a batch with reports, and what it does to the lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence<'a> {
    pub(crate) number: u64,
    /// The token of the last batch: a batch that arrives late finds another one.
    pub(crate) last_token: &'a str,
    /// The time to which the batch extends the lease.
    pub(crate) until: Timestamp,
}

/// A batch with the effects of its success.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) batch: Batch<Work>,
    pub(crate) token: String,
    /// The numbers of the entries.
    pub(crate) entries: Vec<u64>,
    /// The required fence and the end of the extended lease; `None` without reports.
    pub(crate) lease: Option<(u64, Timestamp)>,
    /// The new messages, with the numbers of their entries.
    pub(crate) stored: Vec<(usize, WorkMessage)>,
    /// The next sequence numbers after the batch.
    pub(crate) heads: BTreeMap<StreamKey, u64>,
    /// The versions of the event streams after the batch.
    pub(crate) events: BTreeMap<String, u64>,
    /// The last completed messages after the batch.
    pub(crate) done: BTreeMap<StreamKey, u64>,
    origins: Vec<Origin>,
}

/// The purpose of an operation of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The condition on the fence.
    Fence,
    /// The sequence numbers of new messages.
    Next(StreamKey),
    /// The completion of messages.
    Done(StreamKey),
    /// The version of the event stream with this name.
    EventHead(String),
    /// The message of the entry with this number.
    Message(usize),
    /// The event of the entry with this number.
    Event(usize),
    /// A document of the user, written with the report of this number.
    Effect(usize),
}

/// An entry that does not fit into the batch.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// The entry's number; `None` when a document of the coordinator does not fit.
    pub(crate) entry: Option<usize>,
    pub(crate) error: BatchError,
}

impl Plan {
    /// Plans the entries of one partition.
    pub(crate) fn new(
        entries: &[Pending],
        heads: &Heads,
        context: &PlanContext<'_>,
    ) -> Result<Self, Misfit> {
        let mut plan = Self {
            batch: Batch::new(context.partition),
            token: context.token.clone(),
            entries: entries.iter().map(|pending| pending.number).collect(),
            lease: None,
            stored: Vec::new(),
            heads: BTreeMap::new(),
            events: BTreeMap::new(),
            done: BTreeMap::new(),
            origins: Vec::new(),
        };
        let own = |error| Misfit { entry: None, error };
        if let Some(fence) = context.lease
            && entries.iter().any(|pending| pending.report().is_some())
        {
            plan.fence(context, fence).map_err(own)?;
        }
        plan.streams(entries, heads, context)
            .map_err(|(key, error)| Misfit {
                entry: entries.iter().position(|pending| pending.key() == key),
                error,
            })?;
        let mut next: HashMap<StreamKey, u64> = HashMap::new();
        let mut versions: HashMap<&str, u64> = HashMap::new();
        for (number, pending) in entries.iter().enumerate() {
            let added = match &pending.kind {
                PendingKind::Store(new) => {
                    let at = next
                        .entry(new.key())
                        .or_insert_with_key(|key| heads.streams.get(key).copied().unwrap_or(1));
                    *at += 1;
                    let version = versions.entry(&new.stream).or_insert_with(|| {
                        let known = heads.events.get(&new.stream).copied();
                        known.unwrap_or_default()
                    });
                    *version += u64::from(new.is_event);
                    let event = new.is_event.then_some(*version);
                    plan.store(number, message(new, *at - 1, context), event, context.now)
                }
                PendingKind::Report(report) => plan.report(number, report, context),
            };
            added.map_err(|error| Misfit {
                entry: Some(number),
                error,
            })?;
        }
        Ok(plan)
    }

    /// The purpose of the operation at `index`.
    pub(crate) fn origin(&self, index: usize) -> Option<&Origin> {
        self.origins.get(index)
    }

    fn push(
        &mut self,
        origin: Origin,
        added: Result<OperationIndex, BatchError>,
    ) -> Result<(), BatchError> {
        added.map(|_| self.origins.push(origin))
    }

    fn fence(&mut self, context: &PlanContext<'_>, fence: Fence<'_>) -> Result<(), BatchError> {
        let patch = Patch::<WorkPartition>::new()
            .set(WorkPartition::TOKEN, context.token.clone())
            .set(WorkPartition::UNTIL, fence.until)
            .when(WorkPartition::FENCE.eq(fence.number))
            .when_eq(WorkPartition::TOKEN, fence.last_token);
        let key = WorkPartitionKey::new(context.partition);
        self.lease = Some((fence.number, fence.until));
        let added = self.batch.add(patch.at(&key));
        self.push(Origin::Fence, added)
    }

    /// Adds one operation per stream with new messages, and one per stream with completed messages.
    fn streams(
        &mut self,
        entries: &[Pending],
        heads: &Heads,
        context: &PlanContext<'_>,
    ) -> Result<(), (StreamKey, BatchError)> {
        let mut added: BTreeMap<StreamKey, u64> = BTreeMap::new();
        let mut events: BTreeMap<StreamKey, u64> = BTreeMap::new();
        let mut ended: BTreeMap<StreamKey, (u64, u64)> = BTreeMap::new();
        for pending in entries {
            match &pending.kind {
                PendingKind::Store(new) => {
                    *added.entry(new.key()).or_default() += 1;
                    if new.is_event {
                        *events.entry(new.key()).or_default() += 1;
                    }
                }
                PendingKind::Report(report) if report.change == Change::End => {
                    let sequence = report.claim.sequence;
                    let range = ended.entry(report.claim.key.clone());
                    range.or_insert((sequence - 1, sequence)).1 = sequence;
                }
                PendingKind::Report(_) => {}
            }
        }
        for (key, count) in added {
            self.advance_next(&key, heads.streams.get(&key).copied(), count, context)
                .map_err(|error| (key, error))?;
        }
        // Both lanes of a stream have one stream of events.
        let mut versions: BTreeMap<&str, (&StreamKey, u64)> = BTreeMap::new();
        for (key, count) in &events {
            versions.entry(key.stream()).or_insert((key, 0)).1 += count;
        }
        for (stream, (key, count)) in versions {
            let known = heads.events.get(stream).copied().unwrap_or_default();
            self.advance_version(stream, known, known + count, context)
                .map_err(|error| (key.clone(), error))?;
        }
        for (key, range) in ended {
            self.advance_done(&key, range.0, range.1, context)
                .map_err(|error| (key, error))?;
        }
        Ok(())
    }

    fn advance_next(
        &mut self,
        key: &StreamKey,
        known: Option<u64>,
        count: u64,
        context: &PlanContext<'_>,
    ) -> Result<(), BatchError> {
        let next = known.unwrap_or(1) + count;
        let operation = match known {
            Some(before) => {
                let patch = Patch::<WorkStream>::new()
                    .set(WorkStream::NEXT, next)
                    .set(WorkStream::TOUCHED, context.now)
                    .when(WorkStream::NEXT.eq(before));
                self.batch
                    .add(patch.at(&stream_key(key, context.partition)))
            }
            None => self.batch.add(
                WorkStream {
                    partition: context.partition.to_owned(),
                    lane: key.lane(),
                    stream: key.stream().to_owned(),
                    next,
                    done: 0,
                    touched: context.now,
                }
                .create(),
            ),
        };
        self.heads.insert(key.clone(), next);
        self.push(Origin::Next(key.clone()), operation)
    }

    fn advance_version(
        &mut self,
        stream: &str,
        from: u64,
        to: u64,
        context: &PlanContext<'_>,
    ) -> Result<(), BatchError> {
        let added = advance_event_head(&mut self.batch, context.partition, stream, from, to);
        self.events.insert(stream.to_owned(), to);
        self.push(Origin::EventHead(stream.to_owned()), added)
    }

    fn advance_done(
        &mut self,
        key: &StreamKey,
        from: u64,
        to: u64,
        context: &PlanContext<'_>,
    ) -> Result<(), BatchError> {
        let patch = Patch::<WorkStream>::new()
            .set(WorkStream::DONE, to)
            .set(WorkStream::TOUCHED, context.now)
            .when(WorkStream::DONE.eq(from));
        let operation = self
            .batch
            .add(patch.at(&stream_key(key, context.partition)));
        self.done.insert(key.clone(), to);
        self.push(Origin::Done(key.clone()), operation)
    }

    /// Stores a message, and its event with the given version.
    fn store(
        &mut self,
        number: usize,
        mut message: WorkMessage,
        event: Option<u64>,
        now: Timestamp,
    ) -> Result<(), BatchError> {
        if event.is_some() {
            message.status |= WorkStatus::EVENT_STORED;
        }
        let event = event.map(|version| event_of(&message, version, now));
        let added = self.batch.add(message.create());
        self.stored.push((number, message));
        self.push(Origin::Message(number), added)?;
        let Some(event) = event else { return Ok(()) };
        let added = self.batch.add(event.create());
        self.push(Origin::Event(number), added)
    }

    fn report(
        &mut self,
        number: usize,
        report: &NotedReport,
        context: &PlanContext<'_>,
    ) -> Result<(), BatchError> {
        let added = self
            .batch
            .add(change(report, context.remember).at(&message_key(&report.message)));
        self.push(Origin::Message(number), added)?;
        if let Some(effects) = &report.effects {
            self.batch.append(effects)?;
            let count = effects.len();
            self.origins
                .extend(std::iter::repeat_n(Origin::Effect(number), count));
        }
        Ok(())
    }
}

fn message(new: &NewWork, sequence: u64, context: &PlanContext<'_>) -> WorkMessage {
    let key = WorkMessageKey::new(context.partition, new.lane, &new.stream, &new.message_id);
    WorkMessage {
        // From when it is due, so that searches leave it out until then.
        waiting_since: Some(context.now.max(new.due_at.unwrap_or_default())),
        due_at: new.due_at.unwrap_or(context.now),
        needs: new.needs,
        kind: new.kind.clone(),
        context: Box::new(new.context.clone()),
        body: new.body.clone(),
        token: context.token.clone(),
        ..WorkMessage::new(key, sequence)
    }
}

/// The event of a message that is one.
fn event_of(message: &WorkMessage, version: u64, now: Timestamp) -> StreamEvent {
    StreamEvent {
        partition: message.partition.clone(),
        stream: message.stream.clone(),
        version,
        kind: message.kind.clone(),
        context: message.context.clone(),
        body: message.body.clone(),
        recorded_at: now,
        message_id: Some(message.message_id.clone()),
        token: message.token.clone(),
    }
}

/// Advances the version of an event stream from `from` to `to`, if it is `from`.
pub(crate) fn advance_event_head(
    batch: &mut Batch<Work>,
    partition: &str,
    stream: &str,
    from: u64,
    to: u64,
) -> Result<OperationIndex, BatchError> {
    if from == 0 {
        return batch.add(
            EventHead {
                partition: partition.to_owned(),
                stream: stream.to_owned(),
                version: to,
            }
            .create(),
        );
    }
    let patch = Patch::<EventHead>::new()
        .set(EventHead::VERSION, to)
        .when(EventHead::VERSION.eq(from));
    batch.add(patch.at(&EventHeadKey::new(partition, stream)))
}

/// The changes of a report to its message. A completed message stays without its content, so that a
/// duplicate conflicts with it.
fn change(report: &NotedReport, remember: u32) -> Patch<WorkMessage> {
    let message = &report.message;
    let patch = Patch::new().set(WorkMessage::STATUS, message.status);
    let ends = matches!(report.change, Change::End | Change::Dead);
    let patch = if ends && message.retrying {
        patch.set(WorkMessage::RETRYING, false)
    } else {
        patch
    };
    match report.change {
        // An attempt passed a stage after the failure that marked the message.
        Change::Progress if message.retrying => patch
            .set(WorkMessage::RETRYING, false)
            .set(WorkMessage::LAST_FAILURE, None),
        Change::Progress => patch,
        Change::Start => patch
            .set(WorkMessage::ATTEMPTS, message.attempts)
            .set(WorkMessage::STARTED_UNDER, Some(report.claim.fence)),
        Change::End => patch
            .set(WorkMessage::WAITING_SINCE, None)
            .set(WorkMessage::BODY, String::new())
            .set(WorkMessage::ATTEMPTS, message.attempts)
            .set(WorkMessage::LAST_FAILURE, message.last_failure.clone())
            .set(WorkMessage::TTL, Some(remember)),
        Change::Retry => patch
            .set(WorkMessage::ATTEMPTS, message.attempts)
            .set(WorkMessage::STARTED_UNDER, None)
            .set(WorkMessage::LAST_FAILURE, message.last_failure.clone())
            .set(WorkMessage::DUE_AT, message.due_at)
            .set(WorkMessage::RETRYING, true),
        Change::Dead => patch
            .set(WorkMessage::ATTEMPTS, message.attempts)
            .set(WorkMessage::STARTED_UNDER, None)
            .set(WorkMessage::LAST_FAILURE, message.last_failure.clone())
            .set(WorkMessage::WAITING_SINCE, None)
            .set(WorkMessage::DEAD_SINCE, message.dead_since),
    }
}

pub(crate) fn stream_key(key: &StreamKey, partition: &str) -> WorkStreamKey {
    WorkStreamKey::new(partition, key.lane(), key.stream())
}

pub(crate) fn message_key(message: &WorkMessage) -> WorkMessageKey {
    WorkMessageKey::new(
        &*message.partition,
        message.lane,
        &*message.stream,
        &*message.message_id,
    )
}
