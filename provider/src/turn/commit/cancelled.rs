//! The activities that a turn has cancelled, and cancellations of children that are not sent.
//!
//! The commit deletes them, so that no effect of one is committed afterwards. An activity that has ended makes the
//! batch fail. Then it is sent again with an intent instead, as for activities that do not fit or may have
//! chunks: their removal is a delivery, which a crash after the commit leaves to the reconciler.

use std::collections::{BTreeMap, HashSet};

use cdb_model::Batch;
use cdb_model::limits::MAX_BATCH_OPERATIONS;
use cdb_model::operation::{BatchError, OperationIndex};
use duroxide::providers::{ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind, build_child_instance_id};

use super::outgoing::Origin;
use crate::queue::instances::{Turn, TurnResult};
use crate::stored::documents::{CancelledActivities, Durable, OutboxIntent, WorkerItemKey};

/// Only longer inputs may be stored in chunks.
const LARGE_INPUT: usize = 8 * 1024;

/// The most activities of one intent, which take about 200 KB.
const MAX_ACTIVITIES: usize = 20_000;

/// The most operations of a batch with deletions: the rest is left to what the turn sends.
const MAX_WITH_DELETED: usize = MAX_BATCH_OPERATIONS / 2;

/// The cancelled activities that a commit deletes.
#[derive(Debug, Default)]
pub(super) struct Deleted {
    keys: Vec<WorkerItemKey>,
    /// The intent that takes their place; `None` without such activities.
    intent: Option<OutboxIntent>,
    operations: Vec<OperationIndex>,
}

impl Deleted {
    /// Adds the deletions to a batch.
    pub(super) fn add_to(&mut self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        let added = self.keys.iter().map(|key| batch.add(key.delete()));
        self.operations = added.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Returns the intent in place of the deletions if half of a batch does not hold them beside `taken`.
    pub(super) fn take_overflow(&mut self, taken: &Batch<Durable>) -> Option<OutboxIntent> {
        let fits = taken.len() + self.keys.len() <= MAX_WITH_DELETED;
        if fits { None } else { self.take() }
    }

    /// Returns the intent in place of the deletions if one of them has made a batch fail: its activity has ended, or
    /// is not delivered yet.
    pub(super) fn take_failed(&mut self, error: &cdb_client::Error) -> Option<OutboxIntent> {
        let failed = error.operation_index();
        let failed = failed.filter(|failed| self.operations.iter().any(|it| it.get() == *failed));
        if error.is_not_found() && failed.is_some() {
            self.take()
        } else {
            None
        }
    }

    fn take(&mut self) -> Option<OutboxIntent> {
        std::mem::take(self).intent
    }
}

/// Returns the activities that the commit deletes, and the intents that remove the others. An activity that is
/// cancelled in the turn that schedules it is never sent (`super::outgoing`).
pub(super) fn removed(
    turn: &Turn,
    origin: &Origin<'_>,
    result: &TurnResult,
) -> (Deleted, Vec<OutboxIntent>) {
    if result.cancelled.is_empty() {
        return <_>::default();
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
    let intent = |number: usize, part: &[&ScheduledActivityIdentifier]| {
        let key = format!("{}-cancelled-{number}", origin.token);
        OutboxIntent {
            cancelled: by_execution(part, &large),
            ..OutboxIntent::new(origin.instance_id, key, origin.instance_id, origin.now)
        }
    };
    let is_small = |activity: &&ScheduledActivityIdentifier| !large.contains(&activity.activity_id);
    let (small, rest): (Vec<_>, Vec<_>) = sent.iter().copied().partition(is_small);
    let (small, rest) = match small.len() {
        1..=MAX_WITH_DELETED => (small, rest),
        _ => (Vec::new(), sent),
    };
    let key = |activity: &&ScheduledActivityIdentifier| {
        let (execution, id) = (activity.execution_id, activity.activity_id);
        WorkerItemKey::new(origin.instance_id, execution, id)
    };
    let deleted = Deleted {
        keys: small.iter().map(key).collect(),
        intent: (!small.is_empty()).then(|| intent(0, &small)),
        operations: Vec::new(),
    };
    let parts = (1..).zip(rest.chunks(MAX_ACTIVITIES));
    let intents = parts.map(|(number, part)| intent(number, part)).collect();
    (deleted, intents)
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
