//! A turn whose commit was rejected, completed by the commit that fails the orchestration.
//!
//! After a rejected commit the runtime commits a failure with a single error event. That failure
//! lacks the name of an orchestration without an earlier commit, and does not notify the parent,
//! which would wait endlessly (duroxide 0.1.32, `process_orchestration_item`). The rejected turn
//! provides both.

use std::collections::BTreeMap;

use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind};

use super::cache::History;
use super::message::Message;
use crate::stored::documents::{KeyValue, Status};

/// The result of a turn, as the runtime acknowledges it.
#[derive(Debug)]
pub(crate) struct TurnResult {
    pub(crate) execution_id: u64,
    pub(crate) history_delta: Vec<Event>,
    pub(crate) worker_items: Vec<WorkItem>,
    pub(crate) orchestrator_items: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
    /// The key-value store as a rewound execution found it: the values of the keys that it had
    /// changed. Empty for a turn of a runtime.
    pub(crate) restored: BTreeMap<String, Option<KeyValue>>,
}

/// The parts of the rejected turn that the failure lacks.
#[derive(Debug)]
pub(crate) struct RejectedCommit {
    metadata: ExecutionMetadata,
    parent: Option<Parent>,
}

/// The parent that waits for the orchestration.
#[derive(Debug)]
struct Parent {
    instance: String,
    execution: u64,
    event: u64,
}

impl Parent {
    fn of(instance: Option<&String>, execution: Option<u64>, event: Option<u64>) -> Option<Self> {
        Some(Self {
            instance: instance?.clone(),
            execution: execution.unwrap_or(1),
            event: event?,
        })
    }

    /// Returns the parent of an orchestration that starts with this event.
    fn of_event(event: &Event) -> Option<Self> {
        match &event.kind {
            EventKind::OrchestrationStarted {
                parent_instance,
                parent_id,
                parent_execution_id,
                ..
            } => Self::of(parent_instance.as_ref(), *parent_execution_id, *parent_id),
            _ => None,
        }
    }

    /// Returns the parent of an orchestration that this message starts.
    fn of_message(message: &Message) -> Option<Self> {
        match message.content.item()? {
            WorkItem::StartOrchestration {
                parent_instance,
                parent_id,
                parent_execution_id,
                ..
            } => Self::of(parent_instance.as_ref(), *parent_execution_id, *parent_id),
            _ => None,
        }
    }
}

impl RejectedCommit {
    pub(crate) fn of(history: Option<&History>, rejected: &TurnResult) -> Self {
        let history = history.map(|history| &**history.events);
        let history = history.unwrap_or_default().iter();
        let mut events = rejected.history_delta.iter().chain(history);
        Self {
            metadata: rejected.metadata.clone(),
            parent: events.find_map(Parent::of_event),
        }
    }

    /// Finds the parent of a turn whose history is damaged. Returns `None` when the readable events
    /// and messages name no parent.
    pub(crate) fn of_damaged(events: &[Event], messages: &[Message]) -> Option<Self> {
        let parent = events.iter().find_map(Parent::of_event);
        let parent = parent.or_else(|| messages.iter().find_map(Parent::of_message));
        Some(Self {
            metadata: ExecutionMetadata::default(),
            parent: Some(parent?),
        })
    }

    /// Completes a failure.
    pub(crate) fn complete(self, failure: &mut TurnResult) {
        let status = failure.metadata.status.clone().map(Status::from);
        let mut events = failure.history_delta.iter().rev();
        let details = events.find_map(|event| match &event.kind {
            EventKind::OrchestrationFailed { details } => Some(details.clone()),
            _ => None,
        });
        let (Some(Status::Failed), Some(details)) = (status, details) else {
            return;
        };
        let (own, turn) = (&mut failure.metadata, self.metadata);
        fill(&mut own.orchestration_name, turn.orchestration_name);
        fill(&mut own.orchestration_version, turn.orchestration_version);
        fill(&mut own.parent_instance_id, turn.parent_instance_id);
        let Some(parent) = self.parent else { return };
        let is_notified = failure.orchestrator_items.iter().any(|item| {
            matches!(item, WorkItem::SubOrchFailed { parent_instance, .. }
                if *parent_instance == parent.instance)
        });
        if !is_notified {
            failure.orchestrator_items.push(WorkItem::SubOrchFailed {
                parent_instance: parent.instance,
                parent_execution_id: parent.execution,
                parent_id: parent.event,
                details,
            });
        }
    }
}

/// Sets a missing value.
fn fill<T>(value: &mut Option<T>, other: Option<T>) {
    *value = value.take().or(other);
}
