//! The events that record what a turn has received. duroxide records them before it runs code (0.1.32,
//! `ReplayEngine::prep_completions`). A turn that no code executes records them here, so that a
//! rewind returns them.

use std::collections::HashMap;

use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};

use crate::stored::history::open_schedules;

/// Returns the events of messages, with the schedule that each one ends. Leaves out the end of a
/// schedule that this execution does not wait for.
pub(super) fn recorded(
    history: &[Event],
    execution_id: u64,
    messages: impl IntoIterator<Item = WorkItem>,
) -> Vec<(Option<u64>, EventKind)> {
    let open = open_schedules(history).map(|event| (event.event_id, &event.kind));
    let mut open: HashMap<u64, &EventKind> = open.collect();
    let mut ends = |execution: u64, id: u64, is_kind: fn(&EventKind) -> bool| {
        let is_awaited =
            execution == execution_id && open.get(&id).is_some_and(|kind| is_kind(kind));
        is_awaited && open.remove(&id).is_some()
    };
    let events = messages.into_iter().filter_map(|message| match message {
        WorkItem::ExternalRaised { name, data, .. } => {
            Some((None, EventKind::ExternalEvent { name, data }))
        }
        WorkItem::QueueMessage { name, data, .. } => {
            Some((None, EventKind::QueueEventDelivered { name, data }))
        }
        WorkItem::ActivityCompleted {
            execution_id,
            id,
            result,
            ..
        } => ends(execution_id, id, is_activity)
            .then_some((Some(id), EventKind::ActivityCompleted { result })),
        WorkItem::ActivityFailed {
            execution_id,
            id,
            details,
            ..
        } => ends(execution_id, id, is_activity)
            .then_some((Some(id), EventKind::ActivityFailed { details })),
        WorkItem::TimerFired {
            execution_id,
            id,
            fire_at_ms,
            ..
        } => ends(execution_id, id, is_timer)
            .then_some((Some(id), EventKind::TimerFired { fire_at_ms })),
        WorkItem::SubOrchCompleted {
            parent_execution_id,
            parent_id,
            result,
            ..
        } => ends(parent_execution_id, parent_id, is_child).then_some((
            Some(parent_id),
            EventKind::SubOrchestrationCompleted { result },
        )),
        WorkItem::SubOrchFailed {
            parent_execution_id,
            parent_id,
            details,
            ..
        } => ends(parent_execution_id, parent_id, is_child).then_some((
            Some(parent_id),
            EventKind::SubOrchestrationFailed { details },
        )),
        _ => None,
    });
    events.collect()
}

fn is_activity(kind: &EventKind) -> bool {
    matches!(kind, EventKind::ActivityScheduled { .. })
}

fn is_timer(kind: &EventKind) -> bool {
    matches!(kind, EventKind::TimerCreated { .. })
}

fn is_child(kind: &EventKind) -> bool {
    matches!(kind, EventKind::SubOrchestrationScheduled { .. })
}
