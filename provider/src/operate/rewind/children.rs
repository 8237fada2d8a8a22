//! The children that a rewound instance waits for.

use duroxide::EventKind;
use duroxide::providers::WorkItem;

use super::course::{Child, Course, Target};
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::{Instance, Status};
use crate::stored::{history, spill};

/// Returns whether a child has failed, so that it is rewound before its parent.
///
/// # Errors
/// Fails when the child is running for another execution of its parent, or was deleted.
pub(super) async fn is_rewindable(
    services: &Services,
    child: &Child,
    target: Target<'_>,
) -> Result<bool> {
    match latest(services, child, target).await? {
        Some(found) if found.status == Status::Failed => Ok(true),
        Some(found) if found.has_more() => {
            check_reports_to(services, &found, target.execution).await?;
            Ok(false)
        }
        Some(_) | None => Ok(false),
    }
}

/// Adds the messages of children: the result of a completed one, the start of a missing one.
pub(super) async fn await_children(
    services: &Services,
    course: &mut Course,
    target: Target<'_>,
) -> Result<()> {
    for child in std::mem::take(&mut course.children) {
        match latest(services, &child, target).await? {
            None => course.messages.push(start(child, target)),
            Some(found) if found.status == Status::Completed => {
                let result = match found.output {
                    Some(text) => spill::read(services.container(), text).await?,
                    None => String::new(),
                };
                course.messages.push(WorkItem::SubOrchCompleted {
                    parent_instance: target.instance.to_owned(),
                    parent_execution_id: target.execution,
                    parent_id: child.event,
                    result,
                });
            }
            Some(found) if found.has_more() => {
                check_reports_to(services, &found, target.execution).await?;
            }
            Some(_) => {
                let what = format!("child `{}` has failed again; try again", child.instance);
                return Err(Error::Retryable(what));
            }
        }
    }
    Ok(())
}

/// Reads the latest state of a child. Returns `None` when it has not started.
///
/// # Errors
/// Fails when the child has run and was deleted: a new one would repeat its activities. Fails too when
/// its id has an instance of its own.
async fn latest(
    services: &Services,
    child: &Child,
    target: Target<'_>,
) -> Result<Option<Instance>> {
    let latest = services.container().latest_committed();
    let found = history::read_instance(&latest, &child.instance).await?;
    let found = found.map(|stored| stored.document);
    let found = found.filter(Instance::is_created);
    if found.is_none() && child.failed {
        return Err(Error::Refused(format!(
            "child `{}` was deleted after its failure, and its completed activities would run again; \
             restart its root instance instead",
            child.instance
        )));
    }
    if let Some(found) = &found {
        check_is_child(found, target.instance)?;
    }
    Ok(found)
}

/// Checks that an instance is a child of this parent.
pub(super) fn check_is_child(instance: &Instance, parent: &str) -> Result<()> {
    if instance.parent_instance_id.as_deref() == Some(parent) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "`{}` is not a child of `{parent}` any more; restart `{parent}` instead",
        instance.instance_id
    )))
}

/// Checks that a running child will report its end to this execution of its parent.
async fn check_reports_to(services: &Services, child: &Instance, execution: u64) -> Result<()> {
    let (id, current) = (&child.instance_id, child.current_execution_id);
    let events = history::read_execution(services.container(), id, current).await?;
    let reports = events.first().is_none_or(|event| match &event.kind {
        EventKind::OrchestrationStarted {
            parent_execution_id,
            ..
        } => parent_execution_id.is_none_or(|reported| reported == execution),
        _ => false,
    });
    if reports {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "child `{id}` is still running for the failed execution; wait for its end or cancel it, then rewind"
    )))
}

fn start(child: Child, target: Target<'_>) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: child.instance,
        orchestration: child.orchestration,
        input: child.input,
        version: None,
        parent_instance: Some(target.instance.to_owned()),
        parent_id: Some(child.event),
        parent_execution_id: Some(target.execution),
        execution_id: 1,
    }
}
