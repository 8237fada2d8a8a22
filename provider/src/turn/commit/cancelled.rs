//! The activities that a turn has cancelled, as an intent of its commit, and cancellations of children
//! that are not sent.
//!
//! The commit itself cannot delete them: an activity that has ended would make it fail. So their
//! removal is a delivery, and a crash after the commit leaves it to the reconciler.

use std::collections::{BTreeMap, HashSet};

use duroxide::providers::{ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind, build_child_instance_id};

use super::outgoing::Origin;
use crate::queue::instances::{Turn, TurnResult};
use crate::stored::documents::{CancelledActivities, OutboxIntent};

/// Only longer inputs may be stored in chunks.
const LARGE_INPUT: usize = 8 * 1024;

/// The most activities of one intent, which take about 200 KB.
const MAX_ACTIVITIES: usize = 20_000;

/// Returns the intents that remove cancelled activities. An activity that is cancelled in the turn
/// that schedules it is never sent (`super::outgoing`).
pub(super) fn intents(turn: &Turn, origin: &Origin<'_>, result: &TurnResult) -> Vec<OutboxIntent> {
    if result.cancelled.is_empty() {
        return Vec::new();
    }
    let history = turn.history.as_ref().map(|history| &**history.events);
    let large: HashSet<u64> = history
        .unwrap_or_default()
        .iter()
        .filter(|event| {
            matches!(&event.kind, EventKind::ActivityScheduled { input, .. } if input.len() > LARGE_INPUT)
        })
        .map(|event| event.event_id)
        .collect();
    let never_sent: HashSet<u64> = result.worker_items.iter().filter_map(scheduled).collect();
    let mut sent = Vec::from_iter(&result.cancelled);
    sent.retain(|activity| !never_sent.contains(&activity.activity_id));
    let mut intents = Vec::new();
    for part in sent.chunks(MAX_ACTIVITIES) {
        let key = format!("{}-cancelled-{}", origin.token, intents.len());
        intents.push(OutboxIntent {
            cancelled: by_execution(part, &large),
            ..OutboxIntent::new(origin.instance_id, key, origin.instance_id, origin.now)
        });
    }
    intents
}

/// Removes the cancellations of children that the turn schedules and does not start: a turn that ends
/// its execution sends no starts (duroxide 0.1.32, `run_single_execution_atomic`). Such a cancellation
/// would wait for the next instance of that id.
pub(super) fn drop_never_started(turn: &Turn, result: &mut TurnResult) {
    // A damaged history does not tell which children have started.
    let Some(history) = turn.events() else {
        return;
    };
    let instance = &turn.instance.document;
    let parent = &instance.instance_id;
    let scheduled = |event: &Event| match &event.kind {
        EventKind::SubOrchestrationScheduled { instance, .. } => {
            Some(build_child_instance_id(parent, instance))
        }
        _ => None,
    };
    let mut new: HashSet<String> = result.history_delta.iter().filter_map(scheduled).collect();
    if new.is_empty() {
        return;
    }
    if result.execution_id == instance.current_execution_id {
        for child in history.iter().filter_map(scheduled) {
            new.remove(&child);
        }
    }
    for item in &result.orchestrator_items {
        if let WorkItem::StartOrchestration { instance, .. } = item {
            new.remove(instance);
        }
    }
    result.orchestrator_items.retain(
        |item| !matches!(item, WorkItem::CancelInstance { instance, .. } if new.contains(instance)),
    );
}

/// Groups cancelled activities by execution, and by the size of their inputs.
fn by_execution(
    activities: &[&ScheduledActivityIdentifier],
    large: &HashSet<u64>,
) -> Vec<CancelledActivities> {
    let mut executions: BTreeMap<u64, CancelledActivities> = BTreeMap::new();
    for activity in activities {
        let of = executions.entry(activity.execution_id).or_default();
        of.execution_id = activity.execution_id;
        if large.contains(&activity.activity_id) {
            of.large.push(activity.activity_id);
        } else {
            of.small.push(activity.activity_id);
        }
    }
    executions.into_values().collect()
}

fn scheduled(item: &WorkItem) -> Option<u64> {
    match item {
        WorkItem::ActivityExecute { id, .. } => Some(*id),
        _ => None,
    }
}
