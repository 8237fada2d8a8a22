//! The history of an execution, and what it waits for: the events, timers, activities and children that have not
//! ended.

use cdb_model::Timestamp;
use duroxide::{Event, EventKind};
use serde::Serialize;

use super::row::ObservedInstance;
use super::span::{Span, SpanKind, spans};
use crate::error::Result;
use crate::stored::documents::dropped_events;
use crate::stored::{Store, history as stored};

/// The events of an execution.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObservedHistory {
    /// The events, oldest first, with decoded payloads.
    pub events: Vec<Event>,
    /// The ids of events that were raised before the orchestration waited for them, so that they were dropped.
    pub dropped: Vec<u64>,
    /// What the execution began: its turns, and then all else in the order of the events.
    pub spans: Vec<Span>,
}

/// The input of an execution, and what it waits for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Awaited {
    /// The input.
    pub input: Option<String>,
    /// What it waits for, in the order of its history. Empty if it has ended.
    pub waits: Vec<Wait>,
}

/// Something that an instance waits for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Wait {
    /// The kind.
    pub kind: SpanKind,
    /// The name of the activity, sub-orchestration or event.
    pub name: String,
    /// Whether it is for a queued event.
    #[serde(rename = "queue", skip_serializing_if = "std::ops::Not::not")]
    pub is_queue: bool,
    /// The time at which the wait began.
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

/// Reads the events of an execution.
pub(in super::super) async fn history(
    store: &Store,
    id: &str,
    execution: u64,
) -> Result<ObservedHistory> {
    let segments = stored::read_segments(&store.container, id, execution);
    let segments = segments.await?.whole()?;
    // A turn is stored as one document.
    let turns: Vec<u64> = segments.iter().map(|segment| segment.event_id).collect();
    let events = stored::unpack(&store.container, segments).await?;
    let events = store.payloads.decode_history(events)?;
    Ok(ObservedHistory {
        dropped: dropped_events(&events),
        spans: spans(&events, &turns),
        events,
    })
}

/// Reads the input of the current execution and, unless it has ended, what it waits for.
pub(in super::super) async fn awaited(
    store: &Store,
    instance: &ObservedInstance,
) -> Result<Awaited> {
    let (id, execution) = (&instance.id, instance.execution);
    let events = stored::read_execution(&store.container, id, execution).await?;
    let events = store.payloads.decode_history(events)?;
    let input = events.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted { input, .. } => Some(input.clone()),
        _ => None,
    });
    let waits = if instance.status.has_more() {
        open_waits(&events)
    } else {
        Vec::new()
    };
    Ok(Awaited { input, waits })
}

fn open_waits(events: &[Event]) -> Vec<Wait> {
    let open = spans(events, &[]).into_iter();
    let open = open.filter(|span| span.to.is_none());
    open.map(|span| Wait {
        kind: span.kind,
        name: span.name,
        is_queue: span.is_queue,
        since: span.from,
        event: span.event,
        due_at: span.due_at,
        instance: span.instance,
    })
    .collect()
}

impl Awaited {
    /// Returns whether the instance waits for an event of this name, queued or not.
    pub fn awaits(&self, event: &str, is_queue: bool) -> bool {
        let mut events = self.events();
        events.any(|wait| wait.name == event && wait.is_queue == is_queue)
    }

    /// Returns the events that the instance waits for.
    pub fn events(&self) -> impl Iterator<Item = &Wait> {
        self.waits
            .iter()
            .filter(|wait| wait.kind == SpanKind::Event)
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
        let waits = open_waits(&events.collect::<Vec<_>>());
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
