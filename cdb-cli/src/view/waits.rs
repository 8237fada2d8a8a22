//! What a running instance waits for: the events, timers, activities and children of its history
//! that have not ended.

use std::fmt;

use cdb_model::Timestamp;
use cdb_provider::documents::Instance;
use duroxide::providers::{ProviderAdmin, ProviderError};
use duroxide::{Event, EventKind};
use serde::Serialize;

use super::history::{Lane, bars, raw_event};
use crate::exit::Failure;
use crate::orchestrations::Orchestrations;
use crate::output::short;

/// The input of an execution, and what it waits for.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub input: Option<String>,
    pub waits: Vec<Wait>,
}

/// Something that an instance waits for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wait {
    pub kind: Lane,
    pub name: String,
    pub since: Timestamp,
    /// The id of the event that began the wait.
    pub event: u64,
    /// The time at which a timer fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// The instance id of a sub-orchestration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

/// Reads the input of the current execution and, unless it has ended, what it waits for.
pub(crate) async fn read(
    orchestrations: &Orchestrations,
    instance: &Instance,
) -> Result<Awaited, Failure> {
    awaited(instance, &history(orchestrations, instance).await?)
}

/// As [`read`]. Returns `None` for a history that is damaged or cannot be decoded: the commands that
/// show the instance say why.
///
/// # Errors
/// When the service does not answer.
pub(crate) async fn read_if_intact(
    orchestrations: &Orchestrations,
    instance: &Instance,
) -> Result<Option<Awaited>, Failure> {
    match history(orchestrations, instance).await {
        Err(error) if error.is_retryable() => Err(error.into()),
        Err(_) => Ok(None),
        Ok(events) => Ok(awaited(instance, &events).ok()),
    }
}

async fn history(
    orchestrations: &Orchestrations,
    instance: &Instance,
) -> Result<Vec<Event>, ProviderError> {
    let (id, execution) = (&instance.instance_id, instance.current_execution_id);
    let provider = &orchestrations.provider;
    provider.read_history_with_execution_id(id, execution).await
}

fn awaited(instance: &Instance, events: &[Event]) -> Result<Awaited, Failure> {
    let input = events.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted { input, .. } => Some(input.clone()),
        _ => None,
    });
    let waits = if instance.has_more() {
        open_waits(events)?
    } else {
        Vec::new()
    };
    Ok(Awaited { input, waits })
}

fn open_waits(events: &[Event]) -> Result<Vec<Wait>, Failure> {
    let raw = events
        .iter()
        .map(raw_event)
        .collect::<Result<Vec<_>, _>>()?;
    let open = bars(&raw, &[]).into_iter().filter(|bar| bar.to.is_none());
    let due_at = |id: u64| {
        let mut events = events.iter().filter(|event| event.event_id == id);
        events.find_map(|event| match event.kind {
            EventKind::TimerCreated { fire_at_ms } => Some(Timestamp::from_millis(fire_at_ms)),
            _ => None,
        })
    };
    Ok(open
        .map(|bar| Wait {
            kind: bar.lane,
            name: bar.name,
            since: bar.from,
            event: bar.event,
            due_at: due_at(bar.event),
            instance: bar.instance,
        })
        .collect())
}

impl Awaited {
    /// Returns the names of the external events that the instance waits for.
    pub(crate) fn event_names(&self) -> Vec<&str> {
        let events = self.waits.iter().filter(|wait| wait.kind == Lane::Event);
        events.map(|wait| &*wait.name).collect()
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = short(&self.name, 80);
        match (self.kind, self.due_at, &self.instance) {
            (_, Some(due_at), _) => write!(f, "timer, fires at {due_at}")?,
            (_, _, Some(child)) => {
                write!(
                    f,
                    "sub-orchestration {name}, instance {}",
                    short(child, 120)
                )?;
            }
            (Lane::Activity, ..) => write!(f, "activity {name}")?,
            _ => write!(f, "event {name}")?,
        }
        write!(f, ", since {}", self.since)
    }
}
