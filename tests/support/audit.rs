//! Audits the documents of a container whose orchestrations have ended: no queued item, no lock, no
//! undelivered message, and histories in which every event occurs once.
//!
//! Reads only the stored form, so it can judge a store after any failure.

use std::collections::{BTreeMap, BTreeSet};

use cdb_client::{ContainerClient, Error};
use cdb_provider::documents::{
    Durable, HistorySegment, Instance, NEVER, OrchestratorItem, SCHEMA_PARTITION, Text,
};
use cdb_provider::model::stored::Unreadable;
use cdb_provider::model::{Container as _, Query, Stored};
use duroxide::{Event, EventKind};

/// The documents of one instance.
type Partition = Vec<Stored<Durable>>;

/// Returns the problems of a container whose orchestrations have all ended. Empty if there is none.
///
/// Sessions are allowed: a later cleanup removes those without a holder.
///
/// # Errors
/// When the container cannot be read.
///
/// # Panics
/// When a document of the provider is damaged.
pub async fn audit(container: &ContainerClient<Durable>) -> Result<Vec<String>, Error> {
    let found = audit_by_instance(container).await?.into_iter();
    let lines = found.flat_map(|(instance_id, problems)| {
        let line = move |problem| format!("`{instance_id}`: {problem}");
        problems.into_iter().map(line)
    });
    Ok(lines.collect())
}

/// Returns the problems by instance. Instances without a problem are left out.
///
/// # Errors
/// The same.
///
/// # Panics
/// The same.
pub async fn audit_by_instance(
    container: &ContainerClient<Durable>,
) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let rows = own_documents(container, Query::<Durable>::across_partitions()).await?;
    let mut partitions: BTreeMap<String, Partition> = BTreeMap::new();
    for row in rows {
        // Documents without an instance stay.
        let instance_id = instance_id(&row.document).filter(|id| *id != SCHEMA_PARTITION);
        if let Some(instance_id) = instance_id.map(str::to_owned) {
            partitions.entry(instance_id).or_default().push(row);
        }
    }
    let judged = partitions.into_iter().map(|(instance_id, partition)| {
        let found = leftovers(&partition).into_iter();
        let found = found.chain(instance_problems(&partition));
        let found = found.chain(history_problems(&partition));
        (instance_id, found.collect::<Vec<String>>())
    });
    Ok(judged.filter(|(_, found)| !found.is_empty()).collect())
}

/// Returns the problems of the histories of one ended instance. Empty if there is none, or if the
/// instance was purged.
///
/// # Errors
/// When the container cannot be read.
///
/// # Panics
/// When a document of the provider is damaged.
pub async fn audit_history(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<Vec<String>, Error> {
    let partition = Query::<Durable>::in_partition(instance_id);
    let partition = own_documents(container, partition).await?;
    Ok(history_problems(&partition))
}

/// Reads the documents of the provider. Documents of other types belong to other users of the
/// container.
async fn own_documents(
    container: &ContainerClient<Durable>,
    query: Query<Durable>,
) -> Result<Partition, Error> {
    let rows = container.query(query).row_by_row().all().await?;
    let is_own = |found: &Unreadable| {
        let mut own = Durable::DOCUMENTS.iter();
        own.any(|shape| shape.discriminator == found.discriminator)
    };
    let readable = rows.into_iter().filter_map(|row| match row {
        Err(found) if is_own(&found) => panic!("a document of the provider is damaged: {found}"),
        row => row.ok(),
    });
    Ok(readable.collect())
}

/// The instance that a document belongs to.
///
/// # Panics
/// If the audit has no rule for the document's type.
pub fn instance_id(document: &Durable) -> Option<&str> {
    Some(match document {
        Durable::Instance(document) => &document.instance_id,
        Durable::History(document) => &document.instance_id,
        Durable::Execution(document) => &document.instance_id,
        Durable::OrchestratorItem(document) => &document.instance_id,
        Durable::WorkerItem(document) => &document.instance_id,
        Durable::OutboxIntent(document) => &document.instance_id,
        Durable::Inbox(document) => &document.instance_id,
        Durable::Session(document) => &document.instance_id,
        Durable::KeyValue(document) => &document.instance_id,
        Durable::KeyValueDelta(document) => &document.instance_id,
        Durable::KeyValuePack(document) => &document.instance_id,
        Durable::Chunk(document) => &document.instance_id,
        Durable::Spill(document) => &document.instance_id,
        Durable::Member(_)
        | Durable::Schema(_)
        | Durable::Limits(_)
        | Durable::LimitedKey(_)
        | Durable::RuntimeLease(_) => return None,
        other => panic!("the audit has no rule for `{}`", other.shape().name),
    })
}

/// Documents that exist only while work is pending.
fn leftovers(partition: &Partition) -> Vec<String> {
    let left = partition.iter().filter_map(|row| match &row.document {
        Durable::OrchestratorItem(item) if is_trace(item) => None,
        Durable::OrchestratorItem(item) => {
            Some(format!("a message waits: {}", item.work_item.header()))
        }
        Durable::WorkerItem(item) => {
            Some(format!("an activity waits: {}", item.work_item.header()))
        }
        Durable::OutboxIntent(intent) => {
            let target = &intent.target_instance_id;
            Some(format!("messages for `{target}` wait to be delivered"))
        }
        Durable::KeyValueDelta(delta) => Some(format!("a change of `{}` is not merged", delta.key)),
        Durable::Spill(spill) if spill.is_trace() => None,
        Durable::Spill(spill) => Some(format!("chunks of {} texts are lost", spill.texts.len())),
        Durable::Inbox(record) if record.ttl.is_none() => {
            Some("the trace of a delivery never expires".to_owned())
        }
        _ => None,
    });
    left.chain(lost_chunks(partition)).collect()
}

/// Chunks that no document refers to.
fn lost_chunks(partition: &Partition) -> Vec<String> {
    let referred: BTreeSet<String> = partition
        .iter()
        .flat_map(|row| match &row.document {
            Durable::Instance(instance) => instance.output.iter().collect(),
            Durable::Execution(execution) => execution.output.iter().collect(),
            Durable::History(segment) => vec![&segment.event_data],
            Durable::OrchestratorItem(item) => vec![&item.work_item],
            Durable::WorkerItem(item) => vec![&item.work_item],
            Durable::KeyValuePack(pack) => vec![&pack.value],
            _ => Vec::new(),
        })
        .filter_map(Text::chunked)
        .flat_map(|chunked| chunked.parts().collect::<Vec<_>>())
        .collect();
    let lost = partition.iter().filter_map(|row| match &row.document {
        Durable::Chunk(chunk) if !referred.contains(&chunk.part) => Some(&chunk.part),
        _ => None,
    });
    lost.map(|part| format!("nothing refers to chunk {part}"))
        .collect()
}

/// Returns a text that is stored in place or in chunks of the partition.
fn text_of(partition: &Partition, text: &Text) -> String {
    let Some(chunked) = text.chunked() else {
        return text.header().to_owned();
    };
    let chunks: BTreeMap<&str, &str> = partition
        .iter()
        .filter_map(|row| match &row.document {
            Durable::Chunk(chunk) => Some((&*chunk.part, &*chunk.payload)),
            _ => None,
        })
        .collect();
    let parts = chunked.parts();
    parts
        .filter_map(|part| chunks.get(&*part).copied())
        .collect()
}

/// Returns `true` for the trace that a consumed message leaves, so that a second delivery
/// conflicts.
fn is_trace(item: &OrchestratorItem) -> bool {
    item.visible_at == NEVER && item.ttl.is_some()
}

fn the_instance(partition: &Partition) -> Option<&Instance> {
    partition.iter().find_map(|row| match &row.document {
        Durable::Instance(instance) => Some(instance),
        _ => None,
    })
}

fn instance_problems(partition: &Partition) -> Vec<String> {
    let Some(instance) = the_instance(partition) else {
        let sample = partition.first().map(|row| row.id.as_str());
        let count = partition.len();
        return vec![format!(
            "{count} documents without an instance, such as {sample:?}"
        )];
    };
    let mut problems = Vec::new();
    if instance.has_more() {
        problems.push(format!("it has not ended: {:?}", instance.status));
    }
    if instance.lock_token.is_some() {
        problems.push("it is still locked".to_owned());
    }
    if !instance.attempts.is_empty() {
        let count = instance.attempts.len();
        problems.push(format!("attempts of {count} consumed messages are kept"));
    }
    problems
}

/// Returns events that are duplicated, missing or out of order.
fn history_problems(partition: &Partition) -> Vec<String> {
    let mut executions: BTreeMap<u64, Vec<&HistorySegment>> = BTreeMap::new();
    for row in partition {
        if let Durable::History(segment) = &row.document {
            let segments = executions.entry(segment.execution_id).or_default();
            segments.push(segment);
        }
    }
    let mut problems = Vec::new();
    if let Some(instance) = the_instance(partition) {
        let newest = executions.get(&instance.current_execution_id);
        let found = newest.map_or(0, Vec::len) as u64;
        if instance
            .history_documents
            .is_some_and(|count| count != found)
        {
            problems.push(format!("{found} history documents are not as committed"));
        }
    }
    for (execution_id, mut segments) in executions {
        segments.sort_by_key(|segment| segment.event_id);
        let mut events = Vec::new();
        for segment in segments {
            match HistorySegment::unpack(&text_of(partition, &segment.event_data)) {
                Ok(unpacked) => events.extend(unpacked),
                Err(error) => problems.push(format!("execution {execution_id}: {error}")),
            }
        }
        let found = event_problems(&events).into_iter();
        problems.extend(found.map(|problem| format!("execution {execution_id}: {problem}")));
    }
    problems
}

fn event_problems(events: &[Event]) -> Vec<String> {
    let mut problems = Vec::new();
    let ids: Vec<u64> = events.iter().map(|event| event.event_id).collect();
    if ids.iter().zip(1..).any(|(id, expected)| *id != expected) {
        problems.push(format!("its events are numbered {ids:?}"));
    }
    let ends = events.iter().filter(|event| is_end(&event.kind)).count();
    if ends != 1 {
        problems.push(format!("it ended {ends} times"));
    }
    let scheduled: BTreeSet<u64> = events
        .iter()
        .filter(|event| is_schedule(&event.kind))
        .map(|event| event.event_id)
        .collect();
    let mut answered = BTreeSet::new();
    for event in events.iter().filter(|event| is_completion(&event.kind)) {
        let Some(source) = event.source_event_id else {
            problems.push(format!("{:?} answers nothing", event.kind));
            continue;
        };
        if !scheduled.contains(&source) {
            problems.push(format!("event {source} was answered and never scheduled"));
        }
        if !answered.insert(source) {
            problems.push(format!("event {source} was answered twice"));
        }
    }
    problems
}

fn is_end(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::OrchestrationCompleted { .. }
            | EventKind::OrchestrationFailed { .. }
            | EventKind::OrchestrationContinuedAsNew { .. }
    )
}

fn is_schedule(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityScheduled { .. }
            | EventKind::TimerCreated { .. }
            | EventKind::SubOrchestrationScheduled { .. }
    )
}

fn is_completion(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::TimerFired { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(kinds: Vec<(EventKind, Option<u64>)>) -> Vec<String> {
        let events: Vec<Event> = kinds
            .into_iter()
            .zip(1..)
            .map(|((kind, source), id)| Event::with_event_id(id, "i".to_owned(), 1, source, kind))
            .collect();
        event_problems(&events)
    }

    fn timer() -> (EventKind, Option<u64>) {
        (EventKind::TimerCreated { fire_at_ms: 1 }, None)
    }

    fn fired(source: u64) -> (EventKind, Option<u64>) {
        (EventKind::TimerFired { fire_at_ms: 1 }, Some(source))
    }

    fn completed() -> (EventKind, Option<u64>) {
        let output = String::new();
        (EventKind::OrchestrationCompleted { output }, None)
    }

    #[test]
    fn a_complete_history_has_no_problem() {
        assert!(history(vec![timer(), timer(), fired(2), completed()]).is_empty());
    }

    #[test]
    fn duplicate_and_unrequested_events_are_reported() {
        let told = |kinds| history(kinds).join("; ");
        assert!(told(vec![timer(), fired(1), fired(1), completed()]).contains("answered twice"));
        assert!(told(vec![timer(), fired(7), completed()]).contains("never scheduled"));
        assert!(told(vec![completed(), completed()]).contains("ended 2 times"));
        assert!(told(vec![timer()]).contains("ended 0 times"));
    }
}
