//! Everything a turn needs, in one query of the instance's partition.

use std::collections::HashMap;
use std::time::Duration;

use cdb_model::{Batch, Filter, Query, Stored};
use duroxide::providers::{OrchestrationItem, ProviderError, WorkItem};
use duroxide::{Event, EventKind};

use super::candidate::InstanceCandidate;
use crate::documents::{
    Durable, HistorySegment, Instance, KeyValue, KeyValueDelta, OrchestratorItem,
};
use crate::error::{provider_error, unreadable};
use crate::history;
use crate::kv::KvState;
use crate::provider::Inner;

const FETCH: &str = "fetch_orchestration_item";

/// Most messages of one turn. Each is deleted by the commit, which has room for 100 operations in all.
const MAX_MESSAGES: usize = 64;

/// How often a history that lacks committed documents is read again before it is called damaged.
const STALE_READS: u32 = 5;
const STALE_DELAY: Duration = Duration::from_millis(20);

/// What the partition holds, as far as it concerns the next turn.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) instance_id: String,
    pub(crate) instance: Option<Stored<Instance>>,
    /// Due messages, oldest first.
    pub(crate) messages: Vec<Stored<OrchestratorItem>>,
    pub(crate) work_items: Vec<WorkItem>,
    pub(crate) kv: KvState,
    segments: Vec<HistorySegment>,
    /// The execution that `segments` belongs to.
    execution_id: u64,
}

impl Loaded {
    /// Whether it is known which orchestration the messages are for.
    pub(crate) fn has_context(&self) -> bool {
        self.instance
            .as_ref()
            .is_some_and(|stored| stored.document.is_created())
            || !self.segments.is_empty()
            || self.work_items.iter().any(is_start)
    }

    /// Whether nothing but queued events waits, which do not keep until an orchestration starts
    /// (provider guide, "Work Queues").
    pub(crate) fn only_queue_messages(&self) -> bool {
        self.work_items
            .iter()
            .all(|item| matches!(item, WorkItem::QueueMessage { .. }))
    }

    fn current_execution(&self) -> u64 {
        self.instance
            .as_ref()
            .map_or(1, |stored| stored.document.current_execution_id)
    }

    /// How many history documents the load found.
    pub(crate) fn history_documents(&self) -> u64 {
        self.segments.len() as u64
    }

    fn lacks_history(&self) -> bool {
        let committed = self
            .instance
            .as_ref()
            .and_then(|stored| stored.document.history_documents);
        committed.is_some_and(|committed| self.history_documents() < committed)
    }
}

fn is_start(item: &WorkItem) -> bool {
    matches!(
        item,
        WorkItem::StartOrchestration { .. } | WorkItem::ContinueAsNew { .. }
    )
}

/// Reads the partition of a candidate.
///
/// A single page comes from one replica at one moment. Several pages do not, and then the lock, taken afterwards on
/// the instance's ETag, would prove nothing about the rest; so a load of several pages is repeated until the instance
/// is the same before and after.
pub(crate) async fn load(
    inner: &Inner,
    candidate: &InstanceCandidate,
) -> Result<Loaded, ProviderError> {
    // A guess: one that is wrong costs a query more.
    let known = inner.turns.newest_execution(&candidate.instance_id);
    let execution_id = known.or(candidate.execution_id).unwrap_or(1);
    loop {
        let (rows, pages) = read(inner, &candidate.instance_id, execution_id).await?;
        let loaded = sort_out(&candidate.instance_id, execution_id, rows)?;
        if pages <= 1 || is_unchanged(inner, &loaded).await? {
            return Ok(loaded);
        }
    }
}

async fn is_unchanged(inner: &Inner, loaded: &Loaded) -> Result<bool, ProviderError> {
    let now = history::read_instance(&inner.container, FETCH, &loaded.instance_id).await?;
    Ok(now.map(|stored| stored.etag) == loaded.instance.as_ref().map(|stored| stored.etag.clone()))
}

async fn read(
    inner: &Inner,
    instance_id: &str,
    execution_id: u64,
) -> Result<(Vec<Stored<Durable>>, usize), ProviderError> {
    let wanted = Filter::<Durable>::of_type::<Instance>()
        | Filter::of_type::<KeyValue>()
        | Filter::of_type::<KeyValueDelta>()
        | OrchestratorItem::VISIBLE_AT
            .le(inner.container.now())
            .within()
        | HistorySegment::EXECUTION_ID.eq(execution_id).within();
    let mut pages = inner
        .container
        .query(Query::<Durable>::in_partition(instance_id).filter(wanted))
        .pages();
    let mut rows = Vec::new();
    let mut count = 0;
    while let Some(page) = pages
        .next_page()
        .await
        .map_err(|error| provider_error(FETCH, &error))?
    {
        count += 1;
        rows.extend(page);
    }
    Ok((rows, count))
}

fn sort_out(
    instance_id: &str,
    execution_id: u64,
    rows: Vec<Stored<Durable>>,
) -> Result<Loaded, ProviderError> {
    let mut loaded = Loaded {
        instance_id: instance_id.to_owned(),
        instance: None,
        messages: Vec::new(),
        work_items: Vec::new(),
        kv: KvState::default(),
        segments: Vec::new(),
        execution_id,
    };
    for row in rows {
        let Stored {
            id,
            document,
            etag,
            timestamp,
        } = row;
        macro_rules! stored {
            ($document:expr) => {
                Stored {
                    id,
                    document: $document,
                    etag,
                    timestamp,
                }
            };
        }
        match document {
            Durable::Instance(instance) => loaded.instance = Some(stored!(instance)),
            Durable::OrchestratorItem(item) => loaded.messages.push(stored!(item)),
            Durable::KeyValue(value) => loaded.kv.store.push(stored!(value)),
            Durable::KeyValueDelta(delta) => loaded.kv.delta.push(stored!(delta)),
            Durable::History(segment) => loaded.segments.push(segment),
            Durable::Execution(_)
            | Durable::WorkerItem(_)
            | Durable::OutboxIntent(_)
            | Durable::Inbox(_)
            | Durable::Session(_) => {}
        }
    }
    loaded.messages.sort_by(|a, b| {
        let key =
            |item: &Stored<OrchestratorItem>| (item.document.visible_at, item.document.enqueued_at);
        key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
    });
    loaded.messages.truncate(MAX_MESSAGES);
    for message in &loaded.messages {
        let item = serde_json::from_str(&message.document.work_item)
            .map_err(|error| unreadable(FETCH, format!("message `{}`: {error}", message.id)))?;
        loaded.work_items.push(item);
    }
    loaded.segments.sort_by_key(|segment| segment.event_id);
    Ok(loaded)
}

/// Makes sure that the history is the current execution's, and all of it. `None` when the instance has changed.
pub(crate) async fn complete(
    inner: &Inner,
    mut loaded: Loaded,
) -> Result<Option<Loaded>, ProviderError> {
    if loaded.current_execution() != loaded.execution_id {
        loaded.execution_id = loaded.current_execution();
        loaded.segments = segments(inner, &loaded).await?;
    }
    for _ in 0..STALE_READS {
        if !loaded.lacks_history() {
            return Ok(Some(loaded));
        }
        // A lagging replica answered, or the instance moved on while the history was read.
        tokio::time::sleep(STALE_DELAY).await;
        if !is_unchanged(inner, &loaded).await? {
            return Ok(None);
        }
        loaded.segments = segments(inner, &loaded).await?;
    }
    Ok(Some(loaded))
}

async fn segments(inner: &Inner, loaded: &Loaded) -> Result<Vec<HistorySegment>, ProviderError> {
    history::read_segments(
        &inner.container,
        FETCH,
        &loaded.instance_id,
        loaded.execution_id,
    )
    .await
}

/// Deletes queued events that came before their orchestration.
pub(crate) async fn drop_orphans(inner: &Inner, loaded: &Loaded) -> Result<(), ProviderError> {
    tracing::warn!(
        instance = %loaded.instance_id,
        messages = loaded.messages.len(),
        "dropping events that were queued before their orchestration started"
    );
    let mut batch = Batch::<Durable>::new(&*loaded.instance_id);
    for message in &loaded.messages {
        batch
            .delete_stored(message)
            .map_err(|error| unreadable(FETCH, error))?;
    }
    match inner.container.execute(&batch).await {
        // Somebody else dropped or delivered them meanwhile.
        Err(error) if error.is_not_found() || error.is_precondition_failed() => Ok(()),
        Err(error) => Err(provider_error(FETCH, &error)),
        Ok(_) => Ok(()),
    }
}

/// What the runtime gets to see.
pub(crate) fn item(instance: &Instance, loaded: &Loaded) -> OrchestrationItem {
    let (history, history_error) = match unpack(loaded) {
        Ok(events) => (events, None),
        // The lock is held, so this is no error of the fetch: the runtime counts the attempt and in the end fails
        // the orchestration (provider guide, "History Deserialization Contract").
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let (name, version) = identity(instance, &history, &loaded.work_items);
    OrchestrationItem {
        instance: loaded.instance_id.clone(),
        orchestration_name: name,
        execution_id: instance.current_execution_id,
        version: version.unwrap_or_else(|| "unknown".to_owned()),
        history,
        messages: loaded.work_items.clone(),
        kv_snapshot: if history_error.is_some() {
            HashMap::new()
        } else {
            loaded.kv.snapshot()
        },
        history_error,
    }
}

fn unpack(loaded: &Loaded) -> Result<Vec<Event>, String> {
    if loaded.lacks_history() {
        return Err(format!(
            "execution {} has only {} of its history documents",
            loaded.execution_id,
            loaded.history_documents()
        ));
    }
    history::unpack(&loaded.segments).map_err(|error| error.to_string())
}

fn identity(
    instance: &Instance,
    history: &[Event],
    messages: &[WorkItem],
) -> (String, Option<String>) {
    if instance.is_created() {
        return (
            instance.orchestration_name.clone(),
            instance.orchestration_version.clone(),
        );
    }
    for event in history {
        if let EventKind::OrchestrationStarted { name, version, .. } = &event.kind {
            return (name.clone(), Some(version.clone()));
        }
    }
    for message in messages {
        if let WorkItem::StartOrchestration {
            orchestration,
            version,
            ..
        }
        | WorkItem::ContinueAsNew {
            orchestration,
            version,
            ..
        } = message
        {
            return (orchestration.clone(), version.clone());
        }
    }
    (String::new(), None)
}
