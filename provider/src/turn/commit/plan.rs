//! The plan of a commit, as one value. Planning sends no request; the same plan is sent until its
//! outcome is known.
//!
//! Most turns fit into one batch. For a turn that does not, all large texts move into chunks, the
//! history of the turn and the key-value store become one document each, and its items leave in few
//! intents. The rest fits into a batch, whatever the size of the turn.

use cdb_client::write::BatchOutcome;
use cdb_model::document::EncodeError;
use cdb_model::operation::{BatchError, OperationError, OperationIndex};
use cdb_model::{Batch, Document, DocumentKey, ETag, Stored, Timestamp};
use tokio::time::Instant;

use super::advance::{advance, ended_execution};
use super::cancelled::{self, Deleted};
use super::handed_over::UnstoredMessages;
use super::outgoing::{Origin, Outgoing, SentOperations};
use super::segments::NewHistory;
use crate::error::{Error, Result};
use crate::queue::activities::{FreeWorkers, extend_prelocks};
use crate::queue::instances::{Turn, TurnResult};
use crate::stored::attributes::Attributes;
use crate::stored::documents::{
    Durable, Execution, Instance, OperatorAction, OrchestratorItem, Status, Text,
};
use crate::stored::kv::KvUpdate;
use crate::stored::spill::{ConsumedChunks, Limits, Spilling};

/// The inputs of a plan besides the turn and its result.
#[derive(Debug)]
pub(super) struct PlanContext<'a> {
    pub(super) origin: Origin<'a>,
    pub(super) limits: Limits,
    /// The free capacity of this process's workers.
    pub(super) workers: Option<FreeWorkers>,
    /// The search attributes after the turn.
    pub(super) attributes: Attributes,
}

/// A planned commit.
#[derive(Debug)]
pub(super) struct CommitPlan {
    /// The instance after the commit.
    pub(super) instance: Instance,
    pub(super) history: NewHistory,
    /// The messages that the batch consumes although they are not stored.
    pub(super) unstored: UnstoredMessages,
    /// The execution that this turn replaces.
    ended: Option<Execution>,
    pub(super) kv: KvUpdate,
    pub(super) outgoing: Outgoing,
    /// The cancelled activities that the batch deletes.
    deleted: Deleted,
    /// Chunks that are written before the batch.
    pub(super) spilling: Spilling,
    /// Chunks of consumed messages.
    pub(super) consumed_chunks: ConsumedChunks,
    /// The start of the lock times in the batch.
    locked_at: Timestamp,
    /// The time before the first send.
    pub(super) planned_at: Instant,
    pub(super) batch: Batch<Durable>,
    /// The version that the batch replaces; `None` if it creates the instance.
    pub(super) version: Option<ETag>,
    pub(super) operations: Operations,
}

/// The operations of the batch whose ETags are needed after the commit.
#[derive(Debug, Default)]
pub(super) struct Operations {
    pub(super) instance: Option<OperationIndex>,
    pub(super) kv: Vec<OperationIndex>,
    pub(super) sent: SentOperations,
}

/// Plans the commit of a turn.
///
/// # Errors
/// Fails when the turn exceeds a limit of the provider, or cannot be written as JSON.
pub(super) fn plan(
    turn: &Turn,
    result: &TurnResult,
    context: &PlanContext<'_>,
) -> Result<CommitPlan> {
    match CommitPlan::new(turn, result, context, Form::Inline) {
        Err(Error::Batch(error)) if has_no_room(&error) => {
            CommitPlan::new(turn, result, context, Form::Spilled)
        }
        planned => planned,
    }
}

/// Returns whether an operation does not fit into a batch.
fn has_no_room(error: &BatchError) -> bool {
    matches!(
        error,
        BatchError::Full
            | BatchError::TooLarge { .. }
            | BatchError::Operation(OperationError::Encode(EncodeError::TooLarge { .. }))
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Inline,
    Spilled,
}

impl CommitPlan {
    fn new(
        turn: &Turn,
        result: &TurnResult,
        context: &PlanContext<'_>,
        form: Form,
    ) -> Result<Self> {
        let origin = &context.origin;
        let (id, now) = (origin.instance_id, origin.now);
        let events = &result.history_delta;
        let mut history = NewHistory::pack(context.limits, id, result.execution_id, events)?;
        let mut outgoing = Outgoing::of(origin, result)?;
        let (deleted, intents) = cancelled::removed(turn, origin, result);
        outgoing.intents.extend(intents);
        let sent = outgoing.bytes();
        check_size(turn, result, context.limits, history.bytes, sent)?;
        let mut ended = ended_execution(&turn.instance.document, result, now);
        let mut output = result.metadata.output.clone().map(Text::Inline);
        let mut kv = kv_update(turn, result, origin, form)?;
        let mut spilling = Spilling::new(id, now);
        if form == Form::Spilled {
            history.join();
            let ended = ended.as_mut().and_then(|ended| ended.output.as_mut());
            let texts = history.texts_mut().chain(&mut output);
            texts
                .chain(ended)
                .chain(kv.text_mut())
                .for_each(|text| spilling.spill(text));
            outgoing.spill(origin, &mut spilling)?;
        }
        let documents = history.segments.len() as u64;
        let mut instance = advance(turn, result, output.as_ref(), documents, origin);
        instance.attributes.clone_from(&context.attributes);
        let mut plan = Self {
            instance,
            consumed_chunks: consumed_chunks(turn, origin, &kv),
            history,
            unstored: UnstoredMessages::new(),
            ended,
            kv,
            outgoing,
            deleted,
            spilling,
            locked_at: now,
            planned_at: Instant::now(),
            batch: Batch::new(id),
            version: turn.instance.version.clone(),
            operations: Operations::default(),
        };
        plan.arrange(turn, context)?;
        Ok(plan)
    }

    /// Builds the batch. Items that do not fit move to intents. Activities that this process can
    /// handle at once are prelocked, and messages are reserved for it.
    fn arrange(&mut self, turn: &Turn, context: &PlanContext<'_>) -> Result<(), BatchError> {
        let origin = &context.origin;
        self.begin_batch(turn)?;
        let overflow = self.deleted.take_overflow(&self.batch);
        self.outgoing.intents.extend(overflow);
        self.deleted.add_to(&mut self.batch)?;
        self.outgoing.overflow_into_intents(origin, &self.batch);
        if let Some(workers) = &context.workers {
            workers.lock(&mut self.outgoing.workers, origin.now);
        }
        if turn.caller.is_runtime() {
            self.outgoing.reserve(origin.now);
        }
        self.operations.sent = self.outgoing.add_to(&mut self.batch)?;
        Ok(())
    }

    /// Notes the operator's action in the execution that it replaces, or in the instance that it
    /// creates.
    pub(super) fn note(&mut self, turn: &Turn, action: OperatorAction) -> Result<(), BatchError> {
        match &mut self.ended {
            Some(ended) => ended.rewound = Some(action),
            None => self.instance.origin = Some(action),
        }
        self.rebuild(turn, self.locked_at)
    }

    /// Builds the part of the batch that belongs to the turn itself: instance, history, consumed
    /// messages, key-value store.
    fn begin_batch(&mut self, turn: &Turn) -> Result<(), BatchError> {
        let mut batch = Batch::new(&*self.instance.instance_id);
        self.version.clone_from(&turn.instance.version);
        // First, so that a lost lock fails this operation with 412 or 409.
        let instance = match &self.version {
            Some(etag) => batch.add(self.instance.replace().if_match(etag))?,
            None => batch.add(self.instance.create())?,
        };
        self.operations.instance = Some(instance);
        self.spilling.confirm(&mut batch)?;
        self.consumed_chunks.add_to(&mut batch)?;
        if let Some(ended) = &self.ended {
            batch.add(ended.upsert())?;
        }
        for segment in &self.history.segments {
            batch.add(segment.create())?;
        }
        for message in &turn.messages {
            match self.unstored.get(message.id()) {
                Some(Some(activity)) => drop(batch.add(activity.delete())?),
                Some(None) => {}
                None => consume(&mut batch, &message.stored)?,
            }
        }
        self.operations.kv = self.kv.add_to(&mut batch)?;
        self.batch = batch;
        Ok(())
    }

    /// Rebuilds the batch for the newest version of the instance, with locks that start at `now`.
    pub(super) fn rebuild(&mut self, turn: &Turn, now: Timestamp) -> Result<(), BatchError> {
        let delay = now.since(self.locked_at);
        self.locked_at = now;
        extend_prelocks(&mut self.outgoing.workers, delay);
        self.begin_batch(turn)?;
        self.deleted.add_to(&mut self.batch)?;
        self.operations.sent = self.outgoing.add_to(&mut self.batch)?;
        Ok(())
    }

    /// Leaves the cancelled activities to an intent if the deletion of one has made the batch fail. Returns whether the
    /// batch must be built again.
    pub(super) fn leave_cancelled(&mut self, error: &cdb_client::Error) -> bool {
        let intent = self.deleted.take_failed(error);
        let is_left = intent.is_some();
        self.outgoing.intents.extend(intent);
        is_left
    }

    /// Returns a committed document with its new ETag; `None` if the answer of the commit was lost.
    pub(super) fn stored<D: Document>(
        &self,
        outcome: Option<&BatchOutcome<Durable>>,
        document: D,
        operation: OperationIndex,
    ) -> Option<Stored<D>> {
        Some(Stored {
            id: document.key().to_id().ok()?,
            etag: outcome?.etag(operation)?.clone(),
            document,
            timestamp: self.instance.updated_at,
        })
    }
}

/// Checks the limits of a turn and of a history, by the bytes that the turn adds to its history and
/// that it sends. A turn that fails its orchestration has no limit.
fn check_size(
    turn: &Turn,
    result: &TurnResult,
    limits: Limits,
    added: usize,
    sent: usize,
) -> Result<()> {
    let status = result.metadata.status.clone().map(Status::from);
    if status != Some(Status::Failed) {
        let output = result.metadata.output.as_ref().map_or(0, String::len);
        limits.check_turn(added + sent + output)?;
    }
    if status.is_none() {
        let before = turn.history.as_ref().map_or(0, |history| history.bytes);
        limits.check_history(before + added)?;
    }
    Ok(())
}

/// Returns the change of the key-value store. A store that is packed stays packed; a spilled turn
/// packs it.
fn kv_update(
    turn: &Turn,
    result: &TurnResult,
    origin: &Origin<'_>,
    form: Form,
) -> Result<KvUpdate, serde_json::Error> {
    let status = result.metadata.status.clone().map(Status::from);
    let restored = &result.restored;
    let touched = turn.kv.touched(
        origin.instance_id,
        result.execution_id,
        restored,
        &result.history_delta,
        origin.now,
    );
    let terminal = status.is_some_and(|status| status.is_terminal());
    let changes = turn.kv.changes(touched, restored, terminal);
    let is_pack = turn.kv.pack.is_some() || form == Form::Spilled;
    if is_pack && !changes.is_empty() {
        return changes.pack(origin.instance_id, &turn.kv);
    }
    Ok(KvUpdate::Documents(changes))
}

/// Returns the chunks of all texts that the turn consumes or replaces.
fn consumed_chunks(turn: &Turn, origin: &Origin<'_>, kv: &KvUpdate) -> ConsumedChunks {
    let messages = turn.messages.iter();
    let messages = messages.map(|message| &message.stored.document.work_item);
    let old_pack = turn.kv.pack.as_ref().filter(|_| kv.is_pack());
    let texts = messages.chain(old_pack.map(|pack| &pack.value));
    ConsumedChunks::of(origin.instance_id, origin.now, texts)
}

/// Removes a message from the queue. A message that may be delivered again leaves a trace.
fn consume(
    batch: &mut Batch<Durable>,
    message: &Stored<OrchestratorItem>,
) -> Result<(), BatchError> {
    if message.document.delivered {
        let trace = message.clone().map(OrchestratorItem::into_trace);
        batch.add(trace.replace())?;
    } else {
        batch.add(message.delete())?;
    }
    Ok(())
}
