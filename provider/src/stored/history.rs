//! Reads and appends history outside of turns: for clients, tools and tests.

use std::collections::HashSet;

use cdb_client::ContainerClient;
use cdb_model::query::Filter;
use cdb_model::{Batch, Document as _, Query, Stored};
use duroxide::{Event, EventKind, build_child_instance_id};

use super::documents::Durable;
use super::spill;
use super::store::Store;
use crate::error::{Error, Result};
use crate::stored::documents::{HistorySegment, Instance, InstanceKey, Partial, Status};

/// The version that a history records when the orchestration's version was not known: no code has begun
/// it.
pub(crate) const UNKNOWN_VERSION: &str = "unknown";

/// Reads the instance document.
///
/// `duroxide-cdb` stores instance ids unescaped. When the point read of an id with escaped
/// characters finds nothing, a query by type finds such a document.
pub(crate) async fn read_instance(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<Option<Stored<Instance>>> {
    let found = container.read(&InstanceKey::new(instance_id)).await?;
    if found.is_some()
        || !instance_id.contains(|c: char| !c.is_alphanumeric() && c != '-' && c != '_')
    {
        return Ok(found);
    }
    let query = Query::<Instance>::in_partition(instance_id);
    Ok(container.query(query).first().await?)
}

/// The history documents of an execution.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    pub(crate) documents: Vec<HistorySegment>,
    /// The reason why a document could not be decoded, if any.
    pub(crate) damage: Option<String>,
}

impl Segments {
    /// Sorts the documents of an execution.
    pub(crate) fn sorted(mut self) -> Self {
        // Sorting one execution in memory is cheaper than an index that every write pays for.
        self.documents.sort_by_key(|segment| segment.event_id);
        self
    }

    /// Returns all documents.
    ///
    /// # Errors
    /// Fails when a document could not be decoded.
    pub(crate) fn whole(self) -> Result<Vec<HistorySegment>> {
        match self.damage {
            None => Ok(self.documents),
            Some(damage) => Err(Error::Damaged(damage)),
        }
    }
}

/// Returns the schedules without an end: what an execution with these events waits for.
pub(crate) fn open_schedules(events: &[Event]) -> impl Iterator<Item = &Event> {
    let ended: HashSet<u64> = events
        .iter()
        .filter_map(|event| event.source_event_id)
        .collect();
    let mut events = events.iter();
    std::iter::from_fn(move || events.find(|event| !ended.contains(&event.event_id)))
}

/// Checks that the events match the counts of their documents, and that their ids ascend. Ids may
/// have gaps: duroxide ends an unreadable history with an id of its own (0.1.32,
/// `fail_orchestration_as_poison`).
///
/// # Errors
/// Says what is wrong.
pub(crate) fn check(segments: &[HistorySegment], events: &[Event]) -> Result<(), String> {
    let expected: u64 = segments.iter().map(|segment| segment.event_count).sum();
    if expected != events.len() as u64 {
        return Err(format!(
            "it has {} events instead of {expected}",
            events.len()
        ));
    }
    let mut pairs = events.windows(2);
    match pairs.find(|pair| pair[0].event_id >= pair[1].event_id) {
        None => Ok(()),
        Some(pair) => Err(format!(
            "event {} follows event {}",
            pair[1].event_id, pair[0].event_id
        )),
    }
}

/// Reads the history documents of an execution.
pub(crate) async fn read_segments(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    execution_id: u64,
) -> Result<Segments> {
    let query = Query::<HistorySegment>::in_partition(instance_id)
        .filter(HistorySegment::EXECUTION_ID.eq(execution_id));
    let rows = container.query(query).row_by_row().all().await?;
    let mut segments = Segments::default();
    for row in rows {
        match row {
            Ok(stored) => segments.documents.push(stored.document),
            Err(found) => segments.damage = Some(found.to_string()),
        }
    }
    Ok(segments.sorted())
}

/// Reads and decodes the events of ordered segments.
pub(crate) async fn unpack(
    container: &ContainerClient<Durable>,
    segments: Vec<HistorySegment>,
) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for segment in segments {
        let text = spill::read(container, segment.event_data).await?;
        events.extend(HistorySegment::unpack(&text)?);
    }
    Ok(events)
}

/// Implements `Provider::read_with_execution`.
pub(crate) async fn read_execution(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    execution_id: u64,
) -> Result<Vec<Event>> {
    let segments = read_segments(container, instance_id, execution_id).await?;
    unpack(container, segments.whole()?).await
}

/// Returns the sub-orchestrations that an instance with this history waits for.
pub(crate) fn open_children(events: &[Event], instance: &str) -> Vec<String> {
    let ended = events.iter().filter_map(|event| event.source_event_id);
    let ended: HashSet<u64> = ended.collect();
    let open = events.iter();
    let open = open.filter(|event| !ended.contains(&event.event_id));
    let children = open.filter_map(|event| match &event.kind {
        EventKind::SubOrchestrationScheduled { instance, .. } => Some(instance),
        _ => None,
    });
    children
        .map(|child| build_child_instance_id(instance, child))
        .collect()
}

/// Implements `Provider::read` for the newest execution.
///
/// duroxide reads before every activity. This takes one request when `guess` is the newest
/// execution, and two otherwise.
pub(crate) async fn read_latest(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    guess: u64,
) -> Result<Vec<Event>> {
    let wanted =
        Filter::<Durable>::of_type::<Instance>() | HistorySegment::EXECUTION_ID.eq(guess).within();
    let query = Query::<Durable>::in_partition(instance_id).filter(wanted);
    let rows = container.query(query).row_by_row().all().await?;
    let mut newest = guess;
    let mut failed = false;
    let mut segments = Segments::default();
    for row in rows {
        match row.map(|stored| stored.document) {
            Ok(Durable::Instance(instance)) => {
                newest = instance.current_execution_id;
                failed = instance.status == Status::Failed;
            }
            Ok(Durable::History(segment)) => segments.documents.push(segment),
            Ok(_) => {}
            Err(found) => match Instance::partial(&found) {
                Some(instance) => newest = instance.current_execution_id,
                None => segments.damage = Some(found.to_string()),
            },
        }
    }
    let segments = if newest == guess {
        segments.sorted()
    } else {
        read_segments(container, instance_id, newest).await?
    };
    if failed {
        return readable_events(container, segments).await;
    }
    unpack(container, segments.whole()?).await
}

/// Returns the readable events of a failed instance. The last event tells waiting clients why it
/// failed, which may be an unreadable history.
async fn readable_events(
    container: &ContainerClient<Durable>,
    segments: Segments,
) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for segment in segments.documents {
        match unpack(container, vec![segment]).await {
            Ok(unpacked) => events.extend(unpacked),
            Err(error) if error.is_retryable() => return Err(error),
            Err(error) => {
                tracing::debug!(%error, "an unreadable part of a failed instance's history is skipped");
            }
        }
    }
    Ok(events)
}

/// Implements `Provider::append_with_execution`. Skips events whose ids exist: an event is never
/// overwritten.
pub(crate) async fn append(
    store: &Store,
    instance_id: &str,
    execution_id: u64,
    mut events: Vec<Event>,
) -> Result<()> {
    store.payloads.encode_events(&mut events)?;
    let container = &store.container;
    let present = read_execution(container, instance_id, execution_id).await?;
    let present: HashSet<u64> = present.iter().map(|event| event.event_id).collect();
    let is_new = |event: &Event| !present.contains(&event.event_id);
    let added: Vec<Event> = events.into_iter().filter(is_new).collect();
    let Some(segment) = HistorySegment::pack(instance_id, execution_id, &added)? else {
        return Ok(());
    };
    let mut batch = Batch::<Durable>::new(instance_id);
    batch.add(segment.create())?;
    if let Some(mut stored) = read_instance(container, instance_id).await?
        && stored.document.current_execution_id == execution_id
        && let Some(count) = stored.document.history_documents.as_mut()
    {
        *count += 1;
        batch.add(stored.replace())?;
    }
    container.execute(&batch).await?;
    Ok(())
}
