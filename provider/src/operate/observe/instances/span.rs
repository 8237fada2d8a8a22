//! The spans of a history: what an execution began, and when it ended.

use std::collections::{BTreeMap, BTreeSet};

use cdb_model::Timestamp;
use duroxide::{Event, EventKind, build_child_instance_id};
use serde::Serialize;

/// Something that an execution began: a turn, an activity, a timer, a sub-orchestration or a wait for an event.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Span {
    /// The kind.
    #[serde(rename = "lane")]
    pub kind: SpanKind,
    /// The name of the activity, sub-orchestration or event; `timer`, or `turn 3`.
    pub name: String,
    /// The time of the first event.
    pub from: Timestamp,
    /// The time of the end. `None` while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Whether it ended with an error.
    #[serde(rename = "failed")]
    pub is_failed: bool,
    /// Whether the orchestration stopped waiting, for example because a timer fired first.
    #[serde(rename = "cancelled")]
    pub is_cancelled: bool,
    /// The id of the first event.
    pub event: u64,
    /// The instance id of a sub-orchestration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Whether it is a wait for a queued event.
    #[serde(skip)]
    pub is_queue: bool,
    /// The time at which a timer fires.
    #[serde(skip)]
    pub due_at: Option<Timestamp>,
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SpanKind {
    /// A turn.
    Turn,
    /// An activity.
    Activity,
    /// A timer.
    Timer,
    /// A sub-orchestration.
    SubOrchestration,
    /// A wait for an event.
    Event,
}

/// Returns the spans of events, the turns first. `turns` has the id of the first event of each turn, ascending.
pub(super) fn spans(events: &[Event], turns: &[u64]) -> Vec<Span> {
    let mut spans: Vec<Span> = events.iter().filter_map(Span::opened_by).collect();
    for event in events {
        let Some(source) = event.source_event_id else {
            continue;
        };
        let ended = spans
            .iter_mut()
            .find(|span| span.event == source && span.to.is_none());
        if let Some(span) = ended {
            span.to = Some(at(event));
            span.is_failed = matches!(
                event.kind,
                EventKind::ActivityFailed { .. } | EventKind::SubOrchestrationFailed { .. }
            );
            span.is_cancelled = matches!(
                event.kind,
                EventKind::ActivityCancelRequested { .. }
                    | EventKind::SubOrchestrationCancelRequested { .. }
                    | EventKind::ExternalSubscribedCancelled { .. }
                    | EventKind::QueueSubscriptionCancelled { .. }
            );
        }
    }
    match_raised(events, &mut spans);
    let numbered = turns.iter().enumerate();
    let turns = numbered.filter_map(|(number, first)| turn(events, turns, number, *first));
    turns.chain(spans).collect()
}

fn at(event: &Event) -> Timestamp {
    Timestamp::from_millis(event.timestamp_ms)
}

impl Span {
    /// Returns the span that an event opens.
    fn opened_by(event: &Event) -> Option<Self> {
        let (kind, name) = match &event.kind {
            EventKind::ActivityScheduled { name, .. } => (SpanKind::Activity, name.clone()),
            EventKind::TimerCreated { .. } => (SpanKind::Timer, "timer".to_owned()),
            EventKind::SubOrchestrationScheduled { name, .. } => {
                (SpanKind::SubOrchestration, name.clone())
            }
            EventKind::ExternalSubscribed { name } | EventKind::QueueSubscribed { name } => {
                (SpanKind::Event, name.clone())
            }
            _ => return None,
        };
        let instance = match &event.kind {
            // duroxide stores a generated child id without the prefix of the parent's id.
            EventKind::SubOrchestrationScheduled { instance, .. } => {
                Some(build_child_instance_id(&event.instance_id, instance))
            }
            _ => None,
        };
        let due_at = match event.kind {
            EventKind::TimerCreated { fire_at_ms } => Some(Timestamp::from_millis(fire_at_ms)),
            _ => None,
        };
        Some(Self {
            kind,
            name,
            from: at(event),
            to: None,
            is_failed: false,
            is_cancelled: false,
            event: event.event_id,
            instance,
            is_queue: matches!(event.kind, EventKind::QueueSubscribed { .. }),
            due_at,
        })
    }
}

/// Ends the waits for received events. An event has no subscription id: it belongs to the first wait of its name that
/// has none. A queued event may be older than the wait, and is kept until a wait takes it; any other event is dropped
/// if nothing waits for it.
fn match_raised(events: &[Event], spans: &mut [Span]) {
    let ends = events.iter();
    let ends = ends.filter_map(|event| Some((event.source_event_id?, event.event_id)));
    let ends: BTreeMap<u64, u64> = ends.collect();
    let mut received = BTreeSet::new();
    for event in events {
        let (name, is_queued) = match &event.kind {
            EventKind::ExternalEvent { name, .. } => (name, false),
            EventKind::QueueEventDelivered { name, .. } => (name, true),
            _ => continue,
        };
        let waits = spans.iter_mut().find(|span| {
            let is_open = if is_queued {
                !span.is_cancelled
            } else {
                let end = ends.get(&span.event).copied();
                span.event < event.event_id && end.is_none_or(|end| end > event.event_id)
            };
            span.kind == SpanKind::Event
                && span.is_queue == is_queued
                && is_open
                && span.name == *name
                && !received.contains(&span.event)
        });
        if let Some(span) = waits {
            received.insert(span.event);
            let end = at(event).max(span.from);
            span.to.get_or_insert(end);
        }
    }
}

/// Returns the span of a turn, from its first event to its last.
fn turn(events: &[Event], turns: &[u64], number: usize, first: u64) -> Option<Span> {
    let next = turns.get(number + 1).copied().unwrap_or(u64::MAX);
    let mut of_turn = events
        .iter()
        .filter(|event| event.event_id >= first && event.event_id < next);
    let begin = at(of_turn.next()?);
    let end = of_turn.next_back().map_or(begin, at);
    Some(Span {
        kind: SpanKind::Turn,
        name: format!("turn {}", number + 1),
        from: begin.min(end),
        to: Some(end.max(begin)),
        is_failed: false,
        is_cancelled: false,
        event: first,
        instance: None,
        is_queue: false,
        due_at: None,
    })
}
