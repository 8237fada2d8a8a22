//! The commit of a turn: one atomic batch, conditional on the lock.

use cdb_client::BatchOutcome;
use cdb_model::{
    Batch, BatchError, BulkBatch, Document, DocumentKey, OperationIndex, Stored, Timestamp,
};
use duroxide::Event;
use duroxide::providers::{
    ExecutionMetadata, ProviderError, ScheduledActivityIdentifier, WorkItem,
};

use super::candidate::pack_version;
use super::outgoing::{Origin, Outgoing};
use super::resolve::{Fate, fate};
use super::table::Turn;
use crate::custom_status;
use crate::documents::{
    Durable, Execution, HistorySegment, Instance, OutboxIntent, Status, WorkerItem, WorkerItemKey,
};
use crate::error::{lock_lost, provider_error, unreadable};
use crate::outbox;
use crate::provider::Inner;

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
        inner.finish_turn(&mut turn, std::time::Duration::ZERO);
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

    let committed = send(inner, &mut turn, &result, &segments, &origin, outgoing).await?;
    if result.execution_id > turn.instance.document.current_execution_id {
        turn.instance.document.current_execution_id = result.execution_id;
        inner.turns.note_execution(&turn.instance.document);
    }
    inner.finish_turn(&mut turn, std::time::Duration::ZERO);
    drop(turn);
    after_commit(inner, &result.cancelled, committed).await;
    Ok(())
}

/// What a commit has set in motion.
struct Committed {
    /// New activities; with a version where the answer arrived.
    workers: Vec<Stored<WorkerItem>>,
    own: Vec<(Timestamp, Option<u64>)>,
    instance_id: String,
    intents: Vec<OutboxIntent>,
    now: Timestamp,
}

/// Sends the batch until it is known to be committed or the lock is known to be lost.
async fn send(
    inner: &Inner,
    turn: &mut Turn,
    result: &TurnResult,
    segments: &[HistorySegment],
    origin: &Origin<'_>,
    outgoing: Outgoing,
) -> Result<Committed, ProviderError> {
    let mut outgoing = Some(outgoing);
    for _ in 0..MAX_SENDS {
        let mut batch = turn_itself(turn, result, segments, origin.now)
            .map_err(|error| unreadable(ACK, error))?;
        let fitted = outgoing.take().unwrap_or_default().fit(origin, &batch);
        let workers = fitted
            .add_to(&mut batch)
            .map_err(|error| unreadable(ACK, error))?;
        match inner.container.execute(&batch).await {
            Ok(outcome) => return Ok(committed(fitted, origin, &workers, Some(&outcome))),
            Err(error) if error.is_ambiguous() || error.is_precondition_failed() => {
                match fate(inner, ACK, turn).await? {
                    Fate::Committed => return Ok(committed(fitted, origin, &workers, None)),
                    Fate::Held(stored) => turn.instance.etag = stored.etag,
                    Fate::Lost => return Err(lost(inner, turn)),
                }
            }
            // A message or the instance is gone: deleted by hand.
            Err(error) if error.is_not_found() => return Err(lost(inner, turn)),
            Err(error) => return Err(provider_error(ACK, &error)),
        }
        outgoing = Some(fitted);
    }
    Err(ProviderError::retryable(ACK, "the service did not answer"))
}

fn lost(inner: &Inner, turn: &mut Turn) -> ProviderError {
    inner.finish_turn(turn, std::time::Duration::ZERO);
    lock_lost(ACK, "another runtime took the instance, or it was deleted")
}

/// The operations that make the turn: instance, history, consumed messages, key-value store.
fn turn_itself(
    turn: &Turn,
    result: &TurnResult,
    segments: &[HistorySegment],
    now: Timestamp,
) -> Result<Batch<Durable>, BatchError> {
    let before = &turn.instance.document;
    let instance = advance(turn, result, segments.len() as u64, now);
    let terminal = result
        .metadata
        .status
        .as_ref()
        .is_some_and(|status| Status::from(status.clone()).is_terminal());
    let mut batch = Batch::new(&*before.instance_id);
    // First, so that a lost lock shows up as this operation's 412.
    batch.replace_if_match(&instance, &turn.instance.etag)?;
    if result.execution_id > before.current_execution_id && before.started_at.is_some() {
        batch.upsert(&ended_execution(before, now))?;
    }
    for segment in segments {
        batch.create(segment)?;
    }
    for message in &turn.messages {
        batch.delete_stored(message)?;
    }
    turn.kv
        .changes(
            &before.instance_id,
            result.execution_id,
            &result.history_delta,
            terminal,
            now,
        )
        .add_to(&mut batch)?;
    Ok(batch)
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
        instance.attempts.remove(message.id.as_str());
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

fn committed(
    outgoing: Outgoing,
    origin: &Origin<'_>,
    workers: &[OperationIndex],
    outcome: Option<&BatchOutcome<Durable>>,
) -> Committed {
    let own = outgoing
        .own
        .iter()
        .map(|item| (item.visible_at, item.execution_id))
        .collect();
    let workers = outgoing
        .workers
        .into_iter()
        .zip(workers)
        .filter_map(|(document, &index)| {
            Some(Stored {
                id: document.key().to_id().ok()?,
                etag: outcome?.etag(index)?.clone(),
                document,
                timestamp: origin.now,
            })
        })
        .collect();
    Committed {
        workers,
        own,
        instance_id: origin.instance_id.to_owned(),
        intents: outgoing.intents,
        now: origin.now,
    }
}

/// Wakes who waits for what was committed, removes what was cancelled, delivers what goes elsewhere.
///
/// None of it can fail the turn any more: what is not done here is done by a poll, by the reconciler, or proves
/// superfluous.
async fn after_commit(
    inner: &Inner,
    cancelled: &[ScheduledActivityIdentifier],
    committed: Committed,
) {
    for worker in committed.workers {
        inner.hint_worker(worker, std::time::Duration::ZERO);
    }
    for (visible_at, execution_id) in committed.own {
        let after = visible_at.since(committed.now);
        inner.hint_instance(&committed.instance_id, execution_id, after);
    }
    let deliveries = outbox::deliver_all(inner, committed.intents);
    let cancellations = cancel(inner, cancelled);
    futures::join!(deliveries, cancellations);
}

/// Deletes cancelled activities. One that runs finds its item gone when it renews or ends; one that is missing has
/// already ended.
async fn cancel(inner: &Inner, cancelled: &[ScheduledActivityIdentifier]) {
    let mut bulk = BulkBatch::<Durable>::new();
    for activity in cancelled {
        let key = WorkerItemKey::new(
            &*activity.instance,
            activity.execution_id,
            activity.activity_id,
        );
        if let Err(error) = bulk.delete(&key) {
            tracing::warn!(%error, "cancelled activity cannot be deleted");
        }
    }
    if bulk.is_empty() {
        return;
    }
    for result in inner.container.execute_bulk(&bulk).await {
        match result {
            Err(error) if !error.is_not_found() => {
                tracing::warn!(%error, "cancelled activity was not deleted and will run");
            }
            _ => {}
        }
    }
}
