//! The commit of a turn: one atomic batch, conditional on the lock.

use std::time::Duration;

use cdb_client::BatchOutcome;
use cdb_model::{
    Batch, BatchError, Document, DocumentKey, ItemId, OperationIndex, Stored, Timestamp,
};
use duroxide::Event;
use duroxide::providers::{
    ExecutionMetadata, ProviderError, ScheduledActivityIdentifier, WorkItem,
};

use tokio::time::Instant;

use super::after::after_commit;
use super::ahead;
use super::candidate::pack_version;
use super::mail::Message;
use super::memory::{Past, Remembered};
use super::next::NextTurn;
use super::outgoing::{Origin, Outgoing, Placed};
use super::resolve::{Fate, fate};
use super::table::Turn;
use crate::custom_status;
use crate::documents::{
    Durable, Execution, HistorySegment, Instance, OrchestratorItem, OutboxIntent, Status,
};
use crate::error::{lock_lost, provider_error, unreadable};
use crate::kv::KvWritten;
use crate::provider::Inner;
use crate::work;

const ACK: &str = "ack_orchestration_item";

/// How often a commit is sent again while the lock is still ours.
const MAX_SENDS: u32 = 4;

/// Most bytes of event text in one history document, so that it stays below the service's 2 MB with its escapes.
const SEGMENT_BYTES: usize = 900 * 1024;

/// What the runtime made of a turn.
#[derive(Debug)]
pub(crate) struct TurnResult {
    pub(crate) execution_id: u64,
    pub(crate) history_delta: Vec<Event>,
    pub(crate) worker_items: Vec<WorkItem>,
    pub(crate) orchestrator_items: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}

/// Implements `Provider::ack_orchestration_item`.
pub(crate) async fn commit(
    inner: &Inner,
    token: &str,
    result: TurnResult,
) -> Result<(), ProviderError> {
    let shared = inner.turns.get(ACK, token)?;
    let mut turn = shared.lock().await;
    let now = inner.container.now();
    if !turn.holds(now) {
        inner.finish_turn(&mut turn);
        return Err(lock_lost(ACK, "it has expired"));
    }
    let origin = Origin {
        instance_id: &turn.instance.document.instance_id.clone(),
        token,
        now,
    };
    let outgoing = Outgoing::sort(
        &origin,
        &result.worker_items,
        &result.orchestrator_items,
        &result.cancelled,
    )
    .map_err(|error| unreadable(ACK, error))?;
    let segments =
        pack_history(origin.instance_id, &result).map_err(|error| unreadable(ACK, error))?;

    let sent = send(inner, &mut turn, &result, &segments, &origin, outgoing).await?;
    let intents = settle(inner, &mut turn, &result, &segments, sent);
    let patient = turn.patient;
    drop(turn);
    if intents.is_empty() && result.cancelled.is_empty() {
        return Ok(());
    }
    if patient {
        // A dispatcher goes on. Who looks once sees at once what the turn has done elsewhere.
        inner.spawn(|inner| async move { after_commit(&inner, &result.cancelled, intents).await });
    } else {
        after_commit(inner, &result.cancelled, intents).await;
    }
    Ok(())
}

/// Sends the batch until it is known to be committed or the lock is known to be lost.
async fn send(
    inner: &Inner,
    turn: &mut Turn,
    result: &TurnResult,
    segments: &[HistorySegment],
    origin: &Origin<'_>,
    outgoing: Outgoing,
) -> Result<Sent, ProviderError> {
    let mut outgoing = outgoing;
    for _ in 0..MAX_SENDS {
        let mut sent = Sent::prepare(inner, turn, result, segments, origin, outgoing)
            .map_err(|error| unreadable(ACK, error))?;
        match inner.container.execute(&sent.batch).await {
            Ok(outcome) => {
                sent.outcome = Some(outcome);
                return Ok(sent);
            }
            Err(error) if error.is_ambiguous() || error.is_precondition_failed() => {
                match fate(inner, ACK, turn).await? {
                    Fate::Committed => return Ok(sent),
                    // The version is the one that was asked for: it was a message that was not.
                    Fate::Held(stored)
                        if !error.is_ambiguous() && stored.etag == turn.instance.etag =>
                    {
                        ahead::unlock(inner, &turn.instance, &turn.messages).await;
                        return Err(lost(inner, turn));
                    }
                    Fate::Held(stored) => turn.instance.etag = stored.etag,
                    Fate::Lost => return Err(lost(inner, turn)),
                }
            }
            // A message is gone that another turn has consumed, or the instance was deleted by hand.
            Err(error) if error.is_not_found() => {
                ahead::unlock(inner, &turn.instance, &turn.messages).await;
                return Err(lost(inner, turn));
            }
            Err(error) => return Err(provider_error(ACK, &error)),
        }
        outgoing = sent.outgoing;
    }
    Err(ProviderError::retryable(ACK, "the service did not answer"))
}

fn lost(inner: &Inner, turn: &mut Turn) -> ProviderError {
    let instance_id = turn.instance.document.instance_id.clone();
    inner.mail.forget(&instance_id);
    inner.finish_turn(turn);
    inner.hint_unknown(&instance_id, None, Duration::ZERO);
    lock_lost(ACK, "another runtime took the instance, or it was deleted")
}

/// A commit as it is sent.
struct Sent {
    batch: Batch<Durable>,
    /// The instance as the commit leaves it.
    instance: Instance,
    instance_operation: OperationIndex,
    kv: KvWritten,
    outgoing: Outgoing,
    placed: Placed,
    /// The lock of the next turn, which begins with the commit of this one.
    next: Option<NextTurn>,
    /// Nothing when the answer was lost and the instance said that the commit took place.
    outcome: Option<BatchOutcome<Durable>>,
}

impl Sent {
    /// The operations that make the turn: instance, history, consumed messages, key-value store, and what it sends.
    fn prepare(
        inner: &Inner,
        turn: &Turn,
        result: &TurnResult,
        segments: &[HistorySegment],
        origin: &Origin<'_>,
        outgoing: Outgoing,
    ) -> Result<Self, BatchError> {
        let next = NextTurn::plan(inner, turn, result, &outgoing.own);
        let messages = outgoing.own.len();
        let mut instance = advance(turn, result, segments.len() as u64, origin.now);
        if let Some(next) = &next {
            instance = next.lock(instance, &outgoing.own, origin.now)?;
        }
        let mut batch = Batch::new(origin.instance_id);
        // First, so that a lost lock shows up as this operation's 412.
        let instance_operation = batch.replace_if_match(&instance, &turn.instance.etag)?;
        let kv = add_turn(&mut batch, turn, result, segments, origin.now)?;
        let mut outgoing = outgoing.fit(origin, &batch);
        if next.is_some() && outgoing.own.len() < messages {
            // They travel by intents now, so they are no part of the next turn.
            return Self::prepare(inner, turn, result, segments, origin, outgoing);
        }
        work::lock_ahead(inner, &mut outgoing.workers, origin.now);
        if turn.patient {
            outgoing.reserve(origin.now);
        }
        let placed = outgoing.add_to(&mut batch)?;
        Ok(Self {
            batch,
            instance,
            instance_operation,
            kv,
            outgoing,
            placed,
            next,
            outcome: None,
        })
    }

    /// What an operation of the batch left, if its answer arrived.
    fn stored<D>(&self, id: ItemId, document: D, operation: OperationIndex) -> Option<Stored<D>> {
        Some(Stored {
            id,
            etag: self.outcome.as_ref()?.etag(operation)?.clone(),
            document,
            timestamp: self.instance.updated_at,
        })
    }
}

fn add_turn(
    batch: &mut Batch<Durable>,
    turn: &Turn,
    result: &TurnResult,
    segments: &[HistorySegment],
    now: Timestamp,
) -> Result<KvWritten, BatchError> {
    let before = &turn.instance.document;
    let terminal = result
        .metadata
        .status
        .as_ref()
        .is_some_and(|status| Status::from(status.clone()).is_terminal());
    if result.execution_id > before.current_execution_id && before.started_at.is_some() {
        batch.upsert(&ended_execution(before, now))?;
    }
    for segment in segments {
        batch.create(segment)?;
    }
    for message in &turn.messages {
        consume(batch, &message.stored)?;
    }
    turn.kv
        .changes(
            &before.instance_id,
            result.execution_id,
            &result.history_delta,
            terminal,
            now,
        )
        .add_to(batch)
}

/// Takes a message out of the queue. One that may be delivered again leaves a trace.
fn consume(
    batch: &mut Batch<Durable>,
    message: &Stored<OrchestratorItem>,
) -> Result<(), BatchError> {
    if message.document.delivered {
        let trace = message.clone().map(OrchestratorItem::into_trace);
        batch.replace_stored(&trace)?;
    } else {
        batch.delete_stored(message)?;
    }
    Ok(())
}

/// The instance after the turn.
fn advance(turn: &Turn, result: &TurnResult, new_documents: u64, now: Timestamp) -> Instance {
    let mut instance = turn.instance.document.clone();
    let metadata = &result.metadata;
    instance.lock_token = None;
    instance.locked_until = None;
    instance.commit_token = Some(turn.token.clone());
    instance.updated_at = now;
    for message in &turn.messages {
        instance.attempts.remove(message.id().as_str());
    }
    if result.execution_id > instance.current_execution_id {
        instance.current_execution_id = result.execution_id;
        instance.status = Status::Running;
        instance.output = None;
        instance.pinned_duroxide_version_packed = None;
        instance.history_documents = Some(0);
        instance.started_at = Some(now);
        instance.completed_at = None;
    }
    if result.execution_id == instance.current_execution_id
        && let Some(count) = instance.history_documents.as_mut()
    {
        *count += new_documents;
    }
    if let Some(name) = &metadata.orchestration_name {
        instance.orchestration_name.clone_from(name);
    }
    if metadata.orchestration_version.is_some() {
        instance
            .orchestration_version
            .clone_from(&metadata.orchestration_version);
    }
    // A parent is for life: the first one stays.
    if instance.parent_instance_id.is_none() {
        instance
            .parent_instance_id
            .clone_from(&metadata.parent_instance_id);
    }
    if let Some(version) = &metadata.pinned_duroxide_version {
        instance.pinned_duroxide_version_packed = Some(pack_version(version));
    }
    instance.started_at.get_or_insert(now);
    if instance.status == Status::Pending && instance.is_created() {
        instance.status = Status::Running;
    }
    if let Some(status) = &metadata.status {
        instance.status = Status::from(status.clone());
        instance.output.clone_from(&metadata.output);
        instance.completed_at = Some(now);
    }
    if let Some(status) = custom_status::change_in(&result.history_delta) {
        instance.custom_status = status;
        instance.custom_status_version += 1;
    }
    instance
}

/// What is kept of the execution that this turn replaces.
fn ended_execution(before: &Instance, now: Timestamp) -> Execution {
    Execution {
        instance_id: before.instance_id.clone(),
        execution_id: before.current_execution_id,
        status: before.status.clone(),
        output: before.output.clone(),
        started_at: before.started_at.unwrap_or(before.created_at),
        completed_at: before
            .completed_at
            .or(before.status.is_terminal().then_some(now)),
    }
}

/// Packs the new events: one document, or several when they are large.
fn pack_history(
    instance_id: &str,
    result: &TurnResult,
) -> Result<Vec<HistorySegment>, serde_json::Error> {
    let mut segments = Vec::new();
    let mut rest = &*result.history_delta;
    while !rest.is_empty() {
        let mut bytes = 0;
        let mut end = 0;
        while end < rest.len() {
            bytes += serde_json::to_string(&rest[end])?.len();
            if end > 0 && bytes > SEGMENT_BYTES {
                break;
            }
            end += 1;
        }
        let (chunk, later) = rest.split_at(end);
        segments.extend(HistorySegment::pack(
            instance_id,
            result.execution_id,
            chunk,
        )?);
        rest = later;
    }
    Ok(segments)
}

/// The turn is committed: what it left is remembered, what it set in motion is handed on. Returns what goes elsewhere.
fn settle(
    inner: &Inner,
    turn: &mut Turn,
    result: &TurnResult,
    segments: &[HistorySegment],
    mut sent: Sent,
) -> Vec<OutboxIntent> {
    inner.mail.consumed(&turn.messages);
    inner.turns.note_execution(&sent.instance);
    hand_on_activities(inner, &mut sent);
    let own = hand_on_messages(inner, &mut sent);
    let intents = std::mem::take(&mut sent.outgoing.intents);

    let added = segments
        .iter()
        .map(|segment| segment.event_data.len())
        .sum();
    let past = if result.execution_id > turn.instance.document.current_execution_id {
        let read_at = turn.past.as_ref().ok().and_then(|past| past.read_at);
        Ok(Past {
            read_at,
            ..Past::default()
        })
    } else {
        std::mem::replace(&mut turn.past, Ok(Past::default()))
    };
    inner
        .turns
        .release_history(&turn.instance.document.instance_id);
    let past = past.map(|past| past.extended(&result.history_delta, added));
    let id = turn.instance.id.clone();
    let instance = sent.stored(id, sent.instance.clone(), sent.instance_operation);
    let kv = std::mem::take(&mut turn.kv);
    let kv = sent
        .outcome
        .as_ref()
        .and_then(|outcome| sent.kv.applied(kv, outcome));
    let known = match (instance, past, kv) {
        (Some(instance), Ok(past), Some(kv)) => Some(Remembered { instance, past, kv }),
        _ => None,
    };
    match (sent.next, known) {
        (Some(next), Some(known)) => {
            inner.turns.end(turn);
            next.begin(inner, turn, known, own);
        }
        (Some(next), None) => {
            inner.finish_turn(turn);
            next.lost_sight(inner, turn);
        }
        (None, known) => {
            if let Some(known) = known.filter(|known| known.instance.document.has_more()) {
                inner.memory.put(known);
            }
            inner.finish_turn(turn);
        }
    }
    intents
}

/// Gives new activities to waiting workers: those that were created for them as theirs, the others as hints.
fn hand_on_activities(inner: &Inner, sent: &mut Sent) {
    let workers = std::mem::take(&mut sent.outgoing.workers);
    for (document, &operation) in workers.into_iter().zip(&sent.placed.workers) {
        let locked = document.lock_token.is_some().then(|| document.clone());
        let id = document.key().to_id().ok();
        let stored = id.and_then(|id| sent.stored(id, document, operation));
        match (stored, locked) {
            (Some(item), Some(_)) => inner.hand_over(item),
            (Some(item), None) => inner.hint_free(item, Duration::ZERO),
            (None, Some(item)) => work::lost_sight(inner, item),
            (None, None) => inner.activities.quicken(),
        }
    }
}

/// Notes the turn's messages to its own instance. Returns those that are due.
fn hand_on_messages(inner: &Inner, sent: &mut Sent) -> Vec<Message> {
    let now = sent.instance.updated_at;
    let own = std::mem::take(&mut sent.outgoing.own);
    let mut due = Vec::new();
    for (document, &operation) in own.into_iter().zip(&sent.placed.own) {
        let after = document.due_at().since(now);
        let (instance_id, execution_id) = (document.instance_id.clone(), document.execution_id);
        let stored = document
            .key()
            .to_id()
            .ok()
            .and_then(|id| sent.stored(id, document, operation));
        match stored.map(|stored| Message::parse(stored, Instant::now())) {
            Some(Ok(message)) if after.is_zero() => due.push(message),
            Some(Ok(message)) => inner.expect_message(message, after),
            _ => inner.hint_unknown(&instance_id, execution_id, after),
        }
    }
    if sent.next.is_none() {
        for message in std::mem::take(&mut due) {
            inner.expect_message(message, Duration::ZERO);
        }
    }
    due
}
