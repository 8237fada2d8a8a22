//! A turn whose commit was rejected, completed by the commit that fails the orchestration.
//!
//! After a rejected commit the runtime commits a failure with a single error event. That failure
//! lacks the name of an orchestration without an earlier commit, and does not notify the parent,
//! which would wait endlessly (duroxide 0.1.32, `process_orchestration_item`). The rejected turn
//! provides both.

use duroxide::providers::{ExecutionMetadata, WorkItem};
use duroxide::{Event, EventKind};

use super::cache::History;
use super::message::Message;
use super::turn_result::TurnResult;
use crate::documents::Status;

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

impl RejectedCommit {
    pub(crate) fn of(history: Option<&History>, rejected: &TurnResult) -> Self {
        let history = history.map(|history| &**history.events);
        let history = history.unwrap_or_default().iter();
        // The newest start counts: a turn can start the next execution.
        let mut events = rejected.history_delta.iter().chain(history);
        let parent = events.find_map(|event| match &event.kind {
            EventKind::OrchestrationStarted {
                parent_instance,
                parent_id,
                parent_execution_id,
                ..
            } => Some(
                parent_instance
                    .as_ref()
                    .zip(*parent_id)
                    .map(|(instance, event)| Parent {
                        instance: instance.clone(),
                        execution: parent_execution_id.unwrap_or(1),
                        event,
                    }),
            ),
            _ => None,
        });
        Self {
            metadata: rejected.metadata.clone(),
            parent: parent.flatten(),
        }
    }

    /// Finds the parent of a turn whose history is damaged. Returns `None` when the readable events
    /// and messages name no parent.
    pub(crate) fn of_damaged(events: &[Event], messages: &[Message]) -> Option<Self> {
        let started = events.iter().rev().find_map(|event| match &event.kind {
            EventKind::OrchestrationStarted {
                parent_instance,
                parent_id,
                parent_execution_id,
                ..
            } => Some((parent_instance, *parent_id, *parent_execution_id)),
            _ => None,
        });
        let starts = || {
            let mut items = messages.iter().filter_map(|message| message.content.item());
            items.find_map(|item| match item {
                WorkItem::StartOrchestration {
                    parent_instance,
                    parent_id,
                    parent_execution_id,
                    ..
                } => Some((parent_instance, *parent_id, *parent_execution_id)),
                _ => None,
            })
        };
        let (instance, event, execution) = started.or_else(starts)?;
        let parent = Parent {
            instance: instance.clone()?,
            execution: execution.unwrap_or(1),
            event: event?,
        };
        Some(Self {
            metadata: ExecutionMetadata::default(),
            parent: Some(parent),
        })
    }

    /// Completes a failure.
    pub(crate) fn complete(self, failure: &mut TurnResult) {
        let status = failure.metadata.status.clone().map(Status::from);
        let details = failure
            .history_delta
            .iter()
            .rev()
            .find_map(|event| match &event.kind {
                EventKind::OrchestrationFailed { details } => Some(details.clone()),
                _ => None,
            });
        let (Some(Status::Failed), Some(details)) = (status, details) else {
            return;
        };
        let metadata = &mut failure.metadata;
        let rejected = self.metadata;
        fill(
            &mut metadata.orchestration_name,
            rejected.orchestration_name,
        );
        fill(
            &mut metadata.orchestration_version,
            rejected.orchestration_version,
        );
        fill(
            &mut metadata.parent_instance_id,
            rejected.parent_instance_id,
        );
        let is_notified = failure.orchestrator_items.iter().any(|item| {
            matches!(item, WorkItem::SubOrchFailed { parent_instance, .. }
                if self.parent.as_ref().is_some_and(|parent| parent.instance == *parent_instance))
        });
        if let Some(parent) = self.parent.filter(|_| !is_notified) {
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
    if value.is_none() {
        *value = other;
    }
}
