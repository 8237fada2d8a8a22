//! From entries to one transactional batch: what is written, under which conditions, and who is to blame for a refusal.
//!
//! Three conditions carry everything that is promised. The fence of the partition: only its owner ends messages. `next` of
//! a stream: two who store at the same time do not get one place. `done` of a stream: a message ends after the one before it,
//! once. All of them are in the batch that writes, so none of them rests on a read.

use std::collections::{BTreeMap, HashMap};

use cdb_model::{Batch, BatchError, OperationIndex, Patch, Timestamp};

use super::documents::{
    Work, WorkMessage, WorkMessageKey, WorkPartition, WorkPartitionKey, WorkStream, WorkStreamKey,
};
use super::new_work::NewWork;
use super::queue::{NotedReport, Pending, PendingKind};
use super::status::WorkStatus;
use super::stream_order::{Change, StreamKey};

/// Where the next messages of streams go, as far as it is known. A stream that is not in it is taken for a new one; if it is
/// not, the store says so.
pub(super) type Heads = HashMap<StreamKey, u64>;

/// What a plan is made under.
#[derive(Debug)]
pub(super) struct PlanContext<'a> {
    pub(super) partition: &'a str,
    pub(super) now: Timestamp,
    /// Names the batch.
    pub(super) token: String,
    /// The fence that is held, and until when holding it is extended by this batch.
    pub(super) lease: Option<(u64, Timestamp)>,
    /// Seconds that ended messages are remembered.
    pub(super) remember: u32,
}

/// A batch, and what its success or failure means.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) batch: Batch<Work>,
    pub(super) token: String,
    /// The fence that the batch requires and until when the partition is held after it; nothing when it ends nothing.
    pub(super) lease: Option<(u64, Timestamp)>,
    /// The messages that are stored, with the numbers of their entries.
    pub(super) stored: Vec<(usize, WorkMessage)>,
    /// How far streams are then.
    pub(super) heads: BTreeMap<StreamKey, u64>,
    /// What has ended then.
    pub(super) done: BTreeMap<StreamKey, u64>,
    origins: Vec<Origin>,
}

/// What an operation of the batch is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The condition on the fence.
    Fence,
    /// The places of new messages.
    Next(StreamKey),
    /// The end of messages.
    Done(StreamKey),
    /// The message of the entry with this number.
    Message(usize),
    /// A document of the user's, written with the report of this number.
    Effect(usize),
}

/// An entry that cannot be put into any batch, or not into this one.
#[derive(Debug)]
pub(super) struct Misfit {
    /// The entry's number; nothing when a document of the coordinator's own does not fit.
    pub(super) entry: Option<usize>,
    pub(super) error: BatchError,
}

impl Plan {
    /// Plans entries of one partition.
    pub(super) fn new(
        entries: &[Pending],
        heads: &Heads,
        context: &PlanContext<'_>,
    ) -> Result<Self, Misfit> {
        let mut plan = Self {
            batch: Batch::new(context.partition),
            token: context.token.clone(),
            lease: None,
            stored: Vec::new(),
            heads: BTreeMap::new(),
            done: BTreeMap::new(),
            origins: Vec::new(),
        };
        let own = |error| Misfit { entry: None, error };
        if let Some((fence, until)) = context.lease
            && entries.iter().any(|pending| pending.report().is_some())
        {
            plan.fence(context, fence, until).map_err(own)?;
        }
        plan.streams(entries, heads, context)
            .map_err(|(key, error)| Misfit {
                entry: entries.iter().position(|pending| pending.key() == key),
                error,
            })?;
        let mut next: HashMap<StreamKey, u64> = HashMap::new();
        for (number, pending) in entries.iter().enumerate() {
            let added = match &pending.kind {
                PendingKind::Store(new) => {
                    let at = next.entry(new.key()).or_insert_with(|| first(heads, new));
                    *at += 1;
                    plan.store(number, message(new, *at - 1, context))
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

    /// What the operation at this place is for.
    pub(super) fn origin(&self, index: usize) -> Option<&Origin> {
        self.origins.get(index)
    }

    fn push(
        &mut self,
        origin: Origin,
        added: Result<OperationIndex, BatchError>,
    ) -> Result<(), BatchError> {
        added.map(|_| self.origins.push(origin))
    }

    fn fence(
        &mut self,
        context: &PlanContext<'_>,
        fence: u64,
        until: Timestamp,
    ) -> Result<(), BatchError> {
        let patch = Patch::<WorkPartition>::new()
            .set(WorkPartition::TOKEN, context.token.clone())
            .set(WorkPartition::UNTIL, until)
            .when(WorkPartition::FENCE.eq(fence));
        let key = WorkPartitionKey::new(context.partition);
        self.lease = Some((fence, until));
        let added = self.batch.patch(&key, &patch);
        self.push(Origin::Fence, added)
    }

    /// One operation per stream that gets messages and one per stream that ends some.
    fn streams(
        &mut self,
        entries: &[Pending],
        heads: &Heads,
        context: &PlanContext<'_>,
    ) -> Result<(), (StreamKey, BatchError)> {
        let mut added: BTreeMap<StreamKey, u64> = BTreeMap::new();
        let mut ended: BTreeMap<StreamKey, (u64, u64)> = BTreeMap::new();
        for pending in entries {
            match &pending.kind {
                PendingKind::Store(new) => *added.entry(new.key()).or_default() += 1,
                PendingKind::Report(report) if report.change == Change::End => {
                    let sequence = report.claim.sequence;
                    let range = ended.entry(report.claim.key.clone());
                    range.or_insert((sequence - 1, sequence)).1 = sequence;
                }
                PendingKind::Report(_) => {}
            }
        }
        for (key, count) in added {
            self.advance_next(&key, heads.get(&key).copied(), count, context)
                .map_err(|error| (key, error))?;
        }
        for (key, range) in ended {
            self.advance_done(&key, range, context)
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
                    .patch(&stream_key(key, context.partition), &patch)
            }
            None => self.batch.create(&WorkStream {
                partition: context.partition.to_owned(),
                lane: key.lane(),
                stream: key.stream().to_owned(),
                next,
                done: 0,
                touched: context.now,
            }),
        };
        self.heads.insert(key.clone(), next);
        self.push(Origin::Next(key.clone()), operation)
    }

    fn advance_done(
        &mut self,
        key: &StreamKey,
        (from, to): (u64, u64),
        context: &PlanContext<'_>,
    ) -> Result<(), BatchError> {
        let patch = Patch::<WorkStream>::new()
            .set(WorkStream::DONE, to)
            .set(WorkStream::TOUCHED, context.now)
            .when(WorkStream::DONE.eq(from));
        let operation = self
            .batch
            .patch(&stream_key(key, context.partition), &patch);
        self.done.insert(key.clone(), to);
        self.push(Origin::Done(key.clone()), operation)
    }

    fn store(&mut self, number: usize, message: WorkMessage) -> Result<(), BatchError> {
        let added = self.batch.create(&message);
        self.stored.push((number, message));
        self.push(Origin::Message(number), added)
    }

    fn report(
        &mut self,
        number: usize,
        report: &NotedReport,
        context: &PlanContext<'_>,
    ) -> Result<(), BatchError> {
        let added = self.batch.patch(
            &message_key(&report.message),
            &change(report, context.remember),
        );
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

/// The place of the first new message of a stream.
fn first(heads: &Heads, new: &NewWork) -> u64 {
    heads.get(&new.key()).copied().unwrap_or(1)
}

fn message(new: &NewWork, sequence: u64, context: &PlanContext<'_>) -> WorkMessage {
    WorkMessage {
        partition: context.partition.to_owned(),
        lane: new.lane,
        stream: new.stream.clone(),
        message_id: new.message_id.clone(),
        sequence,
        waiting_since: Some(context.now),
        due_at: new.due_at.unwrap_or(context.now),
        dead_since: None,
        status: WorkStatus::STORED,
        needs: new.needs,
        attempts: 0,
        last_failure: None,
        kind: new.kind.clone(),
        body: new.body.clone(),
        token: context.token.clone(),
        ttl: None,
    }
}

/// What a report changes in its message. An ended one leaves a trace without contents, which a second delivery conflicts
/// with, for as long as it is remembered.
fn change(report: &NotedReport, remember: u32) -> Patch<WorkMessage> {
    let message = &report.message;
    let patch = Patch::new().set(WorkMessage::STATUS, message.status);
    match report.change {
        Change::Progress => patch,
        Change::End => patch
            .set(WorkMessage::WAITING_SINCE, None)
            .set(WorkMessage::BODY, String::new())
            .set(WorkMessage::ATTEMPTS, message.attempts)
            .set(WorkMessage::LAST_FAILURE, message.last_failure.clone())
            .set(WorkMessage::TTL, Some(remember)),
        Change::Retry => patch
            .set(WorkMessage::ATTEMPTS, message.attempts)
            .set(WorkMessage::LAST_FAILURE, message.last_failure.clone())
            .set(WorkMessage::DUE_AT, message.due_at),
        Change::SetAside => patch
            .set(WorkMessage::ATTEMPTS, message.attempts)
            .set(WorkMessage::LAST_FAILURE, message.last_failure.clone())
            .set(WorkMessage::WAITING_SINCE, None)
            .set(WorkMessage::DEAD_SINCE, message.dead_since),
    }
}

pub(super) fn stream_key(key: &StreamKey, partition: &str) -> WorkStreamKey {
    WorkStreamKey::new(partition, key.lane(), key.stream())
}

pub(super) fn message_key(message: &WorkMessage) -> WorkMessageKey {
    WorkMessageKey::new(
        &*message.partition,
        message.lane,
        &*message.stream,
        &*message.message_id,
    )
}
