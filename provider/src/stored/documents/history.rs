//! History documents: one per turn, because each document costs a write and a batch operation.

use std::collections::BTreeMap;

use cdb_model::{Document, Timestamp};
use duroxide::{Event, EventKind};
use serde::{Deserialize, Serialize};

use super::chunk::Text;
use super::instance::{Instance, OperatorAction, Status};

/// The events that one turn appended to one execution. A document of `duroxide-cdb` holds a single
/// event.
///
/// ```
/// use cdb_provider::documents::HistorySegment;
/// use cdb_provider::model::Query;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let client = duroxide::Client::new(std::sync::Arc::new(store.clone()));
/// # let orchestrations = duroxide::OrchestrationRegistry::builder()
/// #     .register("Hello", |_: duroxide::OrchestrationContext, name: String| async move { Ok(name) })
/// #     .build();
/// # let activities = duroxide::runtime::registry::ActivityRegistry::builder().build();
/// # let runtime = duroxide::runtime::Runtime::start_with_store(std::sync::Arc::new(store.clone()), activities, orchestrations).await;
/// # client.start_orchestration("hello-1", "Hello", "Ada").await?;
/// # client.wait_for_orchestration("hello-1", std::time::Duration::from_secs(300)).await?;
/// # runtime.shutdown(None).await;
/// // The first execution of `hello-1`, turn by turn.
/// let mut turns = store
///     .container()
///     .query(Query::<HistorySegment>::in_partition("hello-1").filter(HistorySegment::EXECUTION_ID.eq(1)))
///     .all()
///     .await?;
/// turns.sort_by_key(|turn| turn.document.event_id);
/// let first = HistorySegment::unpack(turns[0].document.event_data.header())?;
/// assert!(matches!(first[0].kind, duroxide::EventKind::OrchestrationStarted { .. }));
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(
    type = "history",
    id = "{instance_id}:history:{execution_id}:{event_id}"
)]
pub struct HistorySegment {
    /// The instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// The execution that the events belong to.
    #[document(index)]
    pub execution_id: u64,
    /// The id of the first event.
    pub event_id: u64,
    /// The number of events in `event_data`.
    #[serde(default = "one")]
    pub event_count: u64,
    /// The events as text: a JSON array, or a single JSON object. Text preserves the events
    /// exactly; the service would store JSON numbers as doubles.
    #[document(unindexed)]
    pub event_data: Text,
}

fn one() -> u64 {
    1
}

impl HistorySegment {
    /// Packs the events of a turn. Returns `None` when there are none.
    ///
    /// # Errors
    /// Fails when an event cannot be written as JSON.
    pub fn pack(
        instance_id: &str,
        execution_id: u64,
        events: &[Event],
    ) -> Result<Option<Self>, serde_json::Error> {
        let Some(first) = events.first() else {
            return Ok(None);
        };
        Ok(Some(Self {
            instance_id: instance_id.to_owned(),
            execution_id,
            event_id: first.event_id,
            event_count: events.len() as u64,
            event_data: Text::Inline(serde_json::to_string(events)?),
        }))
    }

    /// Decodes the events of a segment's text, in order.
    ///
    /// # Errors
    /// Fails when the text was not written by [`HistorySegment::pack`] or `duroxide-cdb`.
    pub fn unpack(event_data: &str) -> Result<Vec<Event>, serde_json::Error> {
        if event_data.starts_with('[') {
            serde_json::from_str(event_data)
        } else {
            serde_json::from_str(event_data).map(|event| vec![event])
        }
    }
}

/// The outcome of an execution that was replaced by a later one. The instance describes the newest
/// execution.
///
/// ```
/// use cdb_provider::documents::Execution;
/// use cdb_provider::model::Query;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let client = duroxide::Client::new(std::sync::Arc::new(store.clone()));
/// # let orchestrations = duroxide::OrchestrationRegistry::builder()
/// #     .register("CountDown", |ctx: duroxide::OrchestrationContext, from: String| async move {
/// #         match from.as_str() { "2" => ctx.continue_as_new("1").await, _ => Ok("lift-off".to_owned()) }
/// #     })
/// #     .build();
/// # let activities = duroxide::runtime::registry::ActivityRegistry::builder().build();
/// # let runtime = duroxide::runtime::Runtime::start_with_store(std::sync::Arc::new(store.clone()), activities, orchestrations).await;
/// # client.start_orchestration("rocket", "CountDown", "2").await?;
/// # client.wait_for_orchestration("rocket", std::time::Duration::from_secs(300)).await?;
/// # runtime.shutdown(None).await;
/// // `rocket` has continued as new once: from 2, then from 1.
/// let replaced = store.container().query(Query::<Execution>::in_partition("rocket")).all().await?;
/// let numbers: Vec<u64> = replaced.iter().map(|stored| stored.document.execution_id).collect();
/// assert_eq!(numbers, [1]); // the instance describes the second
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "execution", id = "{instance_id}:execution:{execution_id}")]
pub struct Execution {
    /// The instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// The execution.
    #[document(index)]
    pub execution_id: u64,
    /// Its final status.
    pub status: Status,
    /// Its result or error.
    #[document(unindexed)]
    pub output: Option<Text>,
    /// The time of its start.
    pub started_at: Timestamp,
    /// The time of its end.
    #[document(index)]
    pub completed_at: Option<Timestamp>,
    /// The operator's change that replaced the execution, if it was rewound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewound: Option<OperatorAction>,
}

impl Execution {
    /// Describes the newest execution of an instance.
    pub(crate) fn newest(instance: &Instance) -> Self {
        Self {
            instance_id: instance.instance_id.clone(),
            execution_id: instance.current_execution_id,
            status: instance.status.clone(),
            output: instance.output.clone(),
            started_at: instance.started_at.unwrap_or(instance.created_at),
            completed_at: instance.completed_at,
            rewound: None,
        }
    }
}

/// Returns the ids of the external events of an execution that its orchestration has not received.
/// duroxide drops an event that is raised before the orchestration waits for it, and keeps it in the
/// history (0.1.32, `has_pending_subscription_slot`). Queued events are kept until they are dequeued.
///
/// ```
/// use cdb_provider::documents::dropped_events;
/// use duroxide::{Event, EventKind};
///
/// let raised = |id| Event::with_event_id(id, "order-7", 1, None, EventKind::ExternalEvent {
///     name: "Approved".to_owned(), data: String::new(),
/// });
/// let waits = |id| Event::with_event_id(id, "order-7", 1, None, EventKind::ExternalSubscribed {
///     name: "Approved".to_owned(),
/// });
/// assert_eq!(dropped_events(&[raised(2), waits(3), raised(4)]), [2]);
/// ```
pub fn dropped_events<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<u64> {
    // The waits of each name that are not cancelled, oldest first, and how many have an event.
    let mut waits: BTreeMap<&'a str, (Vec<u64>, usize)> = BTreeMap::new();
    let mut dropped = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::ExternalSubscribed { name } => {
                waits.entry(name).or_default().0.push(event.event_id);
            }
            EventKind::ExternalEvent { name, .. } => {
                let (waiting, received) = waits.entry(name).or_default();
                if *received < waiting.len() {
                    *received += 1;
                } else {
                    dropped.push(event.event_id);
                }
            }
            EventKind::ExternalSubscribedCancelled { .. } => {
                for (waiting, received) in waits.values_mut() {
                    let position = waiting
                        .iter()
                        .position(|id| Some(*id) == event.source_event_id);
                    if let Some(position) = position {
                        waiting.remove(position);
                        *received -= usize::from(position < *received);
                    }
                }
            }
            _ => {}
        }
    }
    dropped
}
