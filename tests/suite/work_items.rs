//! Messages, activities and events as duroxide makes them.

use duroxide::EventKind;
use duroxide::providers::{ExecutionMetadata, WorkItem};

/// The message that starts an instance without an input, as a client sends it.
pub(crate) fn start_of(instance: &str, orchestration: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: orchestration.to_owned(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

/// Makes a start that of a child of `parent`.
pub(crate) fn child_of(parent: &str, mut start: WorkItem) -> WorkItem {
    if let WorkItem::StartOrchestration {
        parent_instance,
        parent_id,
        parent_execution_id,
        ..
    } = &mut start
    {
        *parent_instance = Some(parent.to_owned());
        *parent_id = Some(2);
        *parent_execution_id = Some(1);
    }
    start
}

/// An activity without an input, in this session.
pub(crate) fn activity_of(instance: &str, id: u64, session: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        name: "Work".to_owned(),
        input: String::new(),
        session_id: session.map(str::to_owned),
        tag: None,
    }
}

/// Returns an activity with this name.
pub(crate) fn activity_named(activity: &str, mut item: WorkItem) -> WorkItem {
    if let WorkItem::ActivityExecute { name, .. } = &mut item {
        activity.clone_into(name);
    }
    item
}

/// Returns a start or an activity with this input.
pub(crate) fn with_input(mut item: WorkItem, text: impl Into<String>) -> WorkItem {
    if let WorkItem::StartOrchestration { input, .. } | WorkItem::ActivityExecute { input, .. } =
        &mut item
    {
        *input = text.into();
    }
    item
}

/// The result of an activity.
pub(crate) fn completion_of(instance: &str, id: u64, result: impl Into<String>) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        result: result.into(),
    }
}

/// An event that a client raises.
pub(crate) fn event_of(instance: &str, name: &str, data: impl Into<String>) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: name.to_owned(),
        data: data.into(),
    }
}

/// The first event of a history.
pub(crate) fn started(orchestration: &str, input: impl Into<String>) -> EventKind {
    EventKind::OrchestrationStarted {
        name: orchestration.to_owned(),
        version: "1.0.0".to_owned(),
        input: input.into(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    }
}

/// The event of an activity `name` that is scheduled with an input.
pub(crate) fn scheduled(name: &str, input: impl Into<String>) -> EventKind {
    EventKind::ActivityScheduled {
        name: name.to_owned(),
        input: input.into(),
        session_id: None,
        tag: None,
    }
}

/// The event of a child that is scheduled without an input.
pub(crate) fn child_scheduled(name: &str, instance: &str) -> EventKind {
    EventKind::SubOrchestrationScheduled {
        name: name.to_owned(),
        instance: instance.to_owned(),
        input: String::new(),
    }
}

/// The metadata of a turn that ends an execution.
pub(crate) fn ending(status: &str) -> ExecutionMetadata {
    ExecutionMetadata {
        status: Some(status.to_owned()),
        ..metadata_of("Wait")
    }
}

/// The metadata of a first turn.
pub(crate) fn metadata_of(orchestration: &str) -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some(orchestration.to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    }
}
