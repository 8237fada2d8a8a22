//! A turn whose commit was refused for good, and the one that fails the orchestration in its place.
//!
//! When a commit is rejected, the runtime commits a failure instead: one event with the error, and nothing else. It does
//! not say which orchestration that was, if it never had a commit before, and it does not tell the parent, which would
//! wait for ever (duroxide 0.1.32, `process_orchestration_item`). Both are known from the turn that was rejected.

use duroxide::providers::{ExecutionMetadata, WorkItem};
use duroxide::{Event, EventKind};

use super::cache::History;
use super::message::Message;
use super::turn_result::TurnResult;
use crate::documents::Status;

/// What is known from the turn that was rejected.
#[derive(Debug)]
pub(crate) struct RejectedCommit {
    metadata: ExecutionMetadata,
    parent: Option<Parent>,
}

/// Who waits for the orchestration to end.
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
        // The newest start counts: a turn can begin the next execution.
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

    /// Of a turn whose history is damaged: who waits for it, as far as what can be read says so. `None` when it does not.
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

    /// Adds to a failure what it lacks.
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
        metadata.orchestration_name = metadata
            .orchestration_name
            .take()
            .or(rejected.orchestration_name);
        metadata.orchestration_version = metadata
            .orchestration_version
            .take()
            .or(rejected.orchestration_version);
        metadata.parent_instance_id = metadata
            .parent_instance_id
            .take()
            .or(rejected.parent_instance_id);
        let told = failure.orchestrator_items.iter().any(|item| {
            matches!(item, WorkItem::SubOrchFailed { parent_instance, .. }
                if self.parent.as_ref().is_some_and(|parent| parent.instance == *parent_instance))
        });
        if let Some(parent) = self.parent.filter(|_| !told) {
            failure.orchestrator_items.push(WorkItem::SubOrchFailed {
                parent_instance: parent.instance,
                parent_execution_id: parent.execution,
                parent_id: parent.event,
                details,
            });
        }
    }
}
