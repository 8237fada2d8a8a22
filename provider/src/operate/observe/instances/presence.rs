//! Whether there is an instance of an id, and what a start that is queued waits for.

use cdb_client::Result;
use cdb_model::{Query, Timestamp};

use super::super::unstarted::{self, Unstarted};
use super::message::describe;
use super::row::{ObservedInstance, key, readable};
use crate::operate::limits::rules;
use crate::stored::Store;
use crate::stored::documents::{Instance, NEVER, OperatorAction, OrchestratorItem};

/// What there is of an id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Presence {
    /// The instance has begun.
    Begun(Box<ObservedInstance>),
    /// Messages for the instance are queued, and no turn of it is committed.
    Queued(Box<QueuedInstance>),
    /// Neither an instance nor a message for one.
    Missing,
}

/// Messages for an instance that has not begun.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueuedInstance {
    /// The first message, in words: `StartOrchestration Order`.
    pub message: String,
    /// The start, if it is among the messages.
    pub start: Option<Unstarted>,
    /// The instance as its start and its document describe it, if there is a start.
    pub instance: Option<ObservedInstance>,
    /// The operator's pause.
    pub paused: Option<OperatorAction>,
    /// How often a runtime has fetched a message.
    pub attempts: u32,
    /// Whether a runtime that does not know the orchestration holds it for others.
    pub is_held: bool,
    /// The selectors of the limits that may keep it from beginning.
    pub limits: Vec<String>,
}

/// Reads an instance that has begun.
pub(in super::super) async fn instance(
    store: &Store,
    id: &str,
) -> Result<Option<ObservedInstance>> {
    let begun = document(store, id).await?.filter(Instance::is_created);
    Ok(begun.map(|instance| ObservedInstance::of(readable(&store.payloads, instance))))
}

async fn document(store: &Store, id: &str) -> Result<Option<Instance>> {
    let found = store.container.read(&key(id)).await?;
    Ok(found.map(|stored| stored.document))
}

/// Reads what there is of an id.
pub(in super::super) async fn read(store: &Store, id: &str) -> Result<Presence> {
    let container = &store.container;
    if let Some(instance) = instance(store, id).await? {
        return Ok(Presence::Begun(Box::new(instance)));
    }
    let messages = container.query(Query::<OrchestratorItem>::in_partition(id));
    let messages = messages.all().await?.into_iter();
    let messages = messages.map(|stored| stored.document);
    let messages: Vec<_> = messages
        .filter(|message| message.visible_at < NEVER)
        .collect();
    let pending = match document(store, id).await? {
        // Its first turn has been committed since the first read.
        Some(instance) if instance.is_created() => {
            let instance = readable(&store.payloads, instance);
            return Ok(Presence::Begun(Box::new(ObservedInstance::of(instance))));
        }
        pending => pending,
    };
    let Some(first) = messages.first() else {
        return Ok(Presence::Missing);
    };
    let mut starts = messages
        .iter()
        .filter_map(|message| Some((Unstarted::of(message)?, message.enqueued_at)));
    let start = starts.next();
    let attempts = pending.as_ref().map_or(0, unstarted::most_attempts);
    let is_held = pending
        .as_ref()
        .is_some_and(|pending| pending.held.is_some());
    let paused = pending.as_ref().and_then(|pending| pending.paused.clone());
    let limits = if paused.is_none() && !is_held && attempts == 0 {
        let limits = rules::read(container).await?;
        unstarted::pauses(container, limits.as_ref().map(|stored| &stored.document)).await?
    } else {
        Vec::new()
    };
    let instance = start.as_ref().map(|(start, at)| {
        let pending = pending.map(|pending| readable(&store.payloads, pending));
        unbegun(start, *at, pending)
    });
    Ok(Presence::Queued(Box::new(QueuedInstance {
        message: describe(&store.payloads, first.work_item.header()),
        start: start.map(|(start, _)| start),
        instance,
        paused,
        attempts,
        is_held,
        limits,
    })))
}

/// Returns an instance that has not begun, from its start and from its document, if it has one.
fn unbegun(start: &Unstarted, queued_at: Timestamp, pending: Option<Instance>) -> ObservedInstance {
    let instance = pending.unwrap_or_else(|| Instance::pending(&start.id, queued_at));
    ObservedInstance {
        orchestration: start.orchestration.clone(),
        version: start.version.clone(),
        is_unbegun: true,
        ..ObservedInstance::of(instance)
    }
}
