//! What a running instance waits for: the events, timers, activities and children of its history
//! that have not ended.

use std::fmt;

use cdb_model::Timestamp;
use cdb_provider::documents::Instance;
use duroxide::providers::{ProviderAdmin, ProviderError};
use duroxide::{Event, EventKind};
use serde::Serialize;

use super::history::{Lane, bars, raw_event};
use crate::container::Orchestrations;
use crate::exit::Failure;
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
    /// Whether it is for a queued event.
    #[serde(rename = "queue", skip_serializing_if = "std::ops::Not::not")]
    pub is_queue: bool,
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
    let is_queue = |id: u64| {
        let mut queues = events.iter().filter(|event| event.event_id == id);
        queues.any(|event| matches!(event.kind, EventKind::QueueSubscribed { .. }))
    };
    Ok(open
        .map(|bar| Wait {
            kind: bar.lane,
            name: bar.name,
            is_queue: is_queue(bar.event),
            since: bar.from,
            event: bar.event,
            due_at: due_at(bar.event),
            instance: bar.instance,
        })
        .collect())
}

impl Awaited {
    /// Returns whether the instance waits for an event of this name, queued or not.
    pub(crate) fn awaits(&self, event: &str, is_queue: bool) -> bool {
        let mut events = self.events();
        events.any(|wait| wait.name == event && wait.is_queue == is_queue)
    }

    /// Returns the events that the instance waits for, in words.
    pub(crate) fn described(&self) -> String {
        let events = self.events().map(|wait| {
            let kind = if wait.is_queue { "the queue " } else { "" };
            format!("{kind}{}", short(&wait.name, 80))
        });
        let events: Vec<_> = events.collect();
        if events.is_empty() {
            return "it waits for no event".to_owned();
        }
        format!("it waits for {}", events.join(", "))
    }

    fn events(&self) -> impl Iterator<Item = &Wait> {
        self.waits.iter().filter(|wait| wait.kind == Lane::Event)
    }
}

impl Wait {
    /// Returns whether another wait is for an activity of the same name.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_activity = self.kind == Lane::Activity && other.kind == Lane::Activity;
        is_activity && self.name == other.name
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
            _ if self.is_queue => write!(f, "queue {name}")?,
            _ => write!(f, "event {name}")?,
        }
        write!(f, ", since {}", self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ids of the open waits of a history of these events.
    fn open(kinds: &[(Option<u64>, EventKind)]) -> Vec<u64> {
        let events = (1..)
            .zip(kinds)
            .map(|(id, (source, kind))| Event::with_event_id(id, "i", 1, *source, kind.clone()));
        let waits = open_waits(&events.collect::<Vec<_>>()).expect("events are JSON");
        waits.iter().map(|wait| wait.event).collect()
    }

    fn name() -> String {
        "Go".to_owned()
    }

    fn waits() -> (Option<u64>, EventKind) {
        (None, EventKind::ExternalSubscribed { name: name() })
    }

    fn raised() -> (Option<u64>, EventKind) {
        let (name, data) = (name(), String::new());
        (None, EventKind::ExternalEvent { name, data })
    }

    fn dequeues() -> (Option<u64>, EventKind) {
        (None, EventKind::QueueSubscribed { name: name() })
    }

    fn queued() -> (Option<u64>, EventKind) {
        let (name, data) = (name(), String::new());
        (None, EventKind::QueueEventDelivered { name, data })
    }

    fn cancels(wait: u64, kind: fn(String) -> EventKind) -> (Option<u64>, EventKind) {
        (Some(wait), kind("lost a race".to_owned()))
    }

    #[test]
    fn a_queued_event_ends_a_later_wait_and_a_raised_one_does_not() {
        assert_eq!(open(&[queued(), dequeues(), dequeues()]), [3]);
        assert_eq!(open(&[raised(), waits()]), [2]);
        assert_eq!(open(&[raised(), waits(), raised()]), [0; 0]);
    }

    #[test]
    fn raised_and_queued_events_of_one_name_end_their_own_waits() {
        assert_eq!(open(&[waits(), dequeues(), queued()]), [1]);
        assert_eq!(open(&[dequeues(), waits(), raised()]), [1]);
    }

    #[test]
    fn a_cancelled_wait_takes_no_later_event() {
        let queue = |reason| EventKind::QueueSubscriptionCancelled { reason };
        assert_eq!(
            open(&[dequeues(), cancels(1, queue), dequeues(), queued()]),
            [0; 0]
        );
        let event = |reason| EventKind::ExternalSubscribedCancelled { reason };
        assert_eq!(
            open(&[waits(), cancels(1, event), waits(), raised()]),
            [0; 0]
        );
        // The event has reached the first wait, and went with it.
        assert_eq!(open(&[waits(), raised(), cancels(1, event), waits()]), [4]);
    }
}
