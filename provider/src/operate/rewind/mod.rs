//! Rewinding a failed instance to before its failure, and forking an instance from an event.
//!
//! Both give an instance a new course: part of a recorded history, as the history of a new execution,
//! and messages for what that part waits for. One atomic commit writes it, so that an interrupted
//! change has not happened. Of a tree, children come before their parents: a repeated rewind finds
//! its children already under way.

mod children;
mod course;
mod restart;
#[cfg(test)]
mod tests;
mod values;

use cdb_model::Timestamp;
use duroxide::providers::{ExecutionMetadata, WorkItem};
use duroxide::{ErrorDetails, Event, EventKind};

use crate::error::{Error, Result};
use crate::operate::admin::instances;
use crate::queue::Services;
use crate::queue::instances::TurnResult;
use crate::stored::documents::{Incarnation, Instance, OperatorAction, Status};
use crate::stored::found::{self, Found};
use crate::stored::kv::Values;
use crate::stored::{admission, history};
use crate::turn::{ExclusiveTurn, commit_course, exclusively};
pub use restart::Restart;
pub(crate) use restart::restart;

use children::check_is_child;
use course::{Course, Target, before_event, before_failure};
use values::Keys;

/// A new course of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RewindResult {
    /// The instance.
    pub instance: String,
    /// The execution that takes the new course.
    pub execution: u64,
    /// The number of events that it keeps.
    pub kept: usize,
    /// The activities that run, as `Charge #4`: name and event.
    pub activities: Vec<String>,
    /// The number of messages that arrive again, timers included.
    pub messages: usize,
    /// The names of the events among these messages, in their order.
    pub events: Vec<String>,
    /// The completed activities and children that are dropped, because the orchestration decided to
    /// run them after its failure. Their effects remain.
    pub dropped: Vec<String>,
    /// The names of events that must be raised again, because they arrived after the kept history.
    pub raise_again: Vec<String>,
    /// The failed children that are rewound too.
    pub children: Vec<RewindResult>,
}

/// The place at which an instance is forked.
#[derive(Clone, Copy, Debug)]
pub struct Fork<'a> {
    /// The execution; the newest one by default.
    pub execution: Option<u64>,
    /// The event whose turn runs again. Events before that turn are kept.
    pub event: u64,
    /// The id of the new instance.
    pub new_instance: &'a str,
}

/// Rewinds a failed instance; only plans without an operator.
pub(crate) async fn rewind(
    services: &Services,
    instance_id: &str,
    by: Option<&str>,
) -> Result<RewindResult> {
    rewind_below(services, instance_id, by, None).await
}

/// Rewinds an instance, below one that is rewound after it.
async fn rewind_below(
    services: &Services,
    instance_id: &str,
    by: Option<&str>,
    above: Option<&Above<'_>>,
) -> Result<RewindResult> {
    let instance = instances::existing(services.container(), instance_id).await?;
    check_failed(&instance)?;
    match (above, &instance.parent_instance_id) {
        (Some(above), _) => check_is_child(&instance, &above.instance.instance_id)?,
        (None, None) => {}
        (None, Some(parent)) => {
            return Err(Error::Refused(format!(
                "`{instance_id}` is a sub-orchestration of `{parent}`, which has received its failure; \
                 rewind `{parent}`, which rewinds its failed children"
            )));
        }
    }
    let execution = instance.current_execution_id;
    let target = Target {
        instance: instance_id,
        execution: execution + 1,
    };
    let events = history::read_execution(services.container(), instance_id, execution).await?;
    let mut course = rewound_course(services, &events, target)?;
    if let Some(above) = above {
        course.for_parent(above.execution);
    }
    let found = Incarnation::of(&instance);
    let this = Above {
        instance: &found,
        execution: target.execution,
        parent: above,
    };
    let mut failed = Vec::new();
    for child in &course.children {
        this.check_not_above(&child.instance)?;
        if children::is_rewindable(services, child, target).await? {
            failed.push(child);
        }
    }
    // After all of them are checked: a refusal must not leave some of them rewound.
    let mut children = Vec::new();
    for child in failed {
        let child = rewind_below(services, &child.instance, by, Some(&this));
        children.push(Box::pin(child).await?);
    }
    let rewound = RewindResult {
        children,
        ..described(&course, target)
    };
    if let Some(by) = by {
        commit_rewind(services, course, this, &events, by).await?;
    }
    Ok(rewound)
}

/// An instance that takes a new course, in this execution, after its failed children have.
#[derive(Clone, Copy)]
struct Above<'a> {
    instance: &'a Incarnation,
    execution: u64,
    parent: Option<&'a Above<'a>>,
}

impl Above<'_> {
    /// Checks that a child of the instance is not one of those above it, or the instance itself.
    fn check_not_above(&self, child: &str) -> Result<()> {
        let mut line = std::iter::successors(Some(self), |above| above.parent);
        if line.any(|above| above.instance.instance_id == child) {
            return Err(Error::Refused(format!(
                "`{child}` and its child `{}` wait for each other; restart `{child}` instead",
                self.instance.instance_id
            )));
        }
        Ok(())
    }

    /// Checks that the instance is still to be rewound: the end of a child is sent to the execution
    /// that the rewind starts.
    async fn check_failed(&self, services: &Services) -> Result<()> {
        let id = &*self.instance.instance_id;
        let found = found::find(services.container(), id).await?;
        let is_failed = |found: &Found| {
            let now = &found.stored.document;
            found.incarnation.is(self.instance)
                && now.status == Status::Failed
                && now.current_execution_id + 1 == self.execution
        };
        if found.as_ref().is_some_and(is_failed) {
            return Ok(());
        }
        Err(has_changed(id))
    }
}

/// Commits the course of a failed execution that has these events.
async fn commit_rewind(
    services: &Services,
    mut course: Course,
    this: Above<'_>,
    events: &[Event],
    by: &str,
) -> Result<()> {
    let (id, failed) = (&*this.instance.instance_id, this.execution - 1);
    let target = Target {
        instance: id,
        execution: this.execution,
    };
    let restored = values::before(services, id, failed, Keys::changed_by(events)).await?;
    let turn = exclusively(services, this.instance, failed).await?;
    let turn = turn.ok_or_else(|| instances::not_found(id))?;
    commit_or_release(services, turn, target.execution, async |turn| {
        check_failed(&turn.0.instance.document)?;
        if *turn.0.events().unwrap_or_default() != events {
            return Err(has_changed(id));
        }
        if let Some(above) = this.parent {
            above.check_failed(services).await?;
        }
        let awaiting = Box::pin(children::await_children(services, &mut course, target));
        turn.while_doing(services, awaiting).await?;
        let what = format!("rewound to {} events", course.kept.len());
        Ok((course, restored, action(by, services.store.now(), what)))
    })
    .await
}

fn has_changed(id: &str) -> Error {
    Error::Retryable(format!("instance `{id}` has changed; try again"))
}

fn rewound_course(services: &Services, events: &[Event], target: Target<'_>) -> Result<Course> {
    let decoded = |details: &ErrorDetails| services.store.payloads.decoded_error(details);
    before_failure(events, target, decoded)?.ok_or_else(|| {
        Error::Refused(format!(
            "the history of `{}` has no failure; restart it instead",
            target.instance
        ))
    })
}

/// Forks an instance; only plans without an operator.
pub(crate) async fn fork(
    services: &Services,
    instance_id: &str,
    at: Fork<'_>,
    by: Option<&str>,
) -> Result<RewindResult> {
    let container = services.container();
    admission::check_instance_id(at.new_instance)?;
    let instance = instances::existing(container, instance_id).await?;
    let execution = at.execution.unwrap_or(instance.current_execution_id);
    let events = history::read_execution(container, instance_id, execution).await?;
    let target = Target {
        instance: at.new_instance,
        execution: 1,
    };
    let course = before_event(&events, at.event, target).ok_or_else(|| {
        Error::Refused(format!(
            "execution {execution} of `{instance_id}` has no event {}; `instances history` of the command lists them",
            at.event
        ))
    })?;
    if let Some(child) = course.children.first() {
        return Err(Error::Refused(format!(
            "the events before event {} wait for the child `{}`, which belongs to `{instance_id}`; \
             choose an event before event {} or after the child's end",
            at.event, child.instance, child.event
        )));
    }
    let latest = container.latest_committed();
    let known = history::read_instance(&latest, at.new_instance).await?;
    check_absent(known.as_ref().map(|known| &known.document))?;
    let forked = described(&course, target);
    let Some(by) = by else {
        return Ok(forked);
    };
    let mut restored = values::before(services, instance_id, execution, Keys::all()).await?;
    for value in restored.values_mut().flatten() {
        at.new_instance.clone_into(&mut value.instance_id);
    }
    restored.retain(|_, value| value.is_some());
    let new = Incarnation::started_by(None, at.new_instance);
    let turn = exclusively(services, &new, 1).await?;
    let turn = turn.ok_or_else(|| exists(at.new_instance))?;
    commit_or_release(services, turn, target.execution, async |turn| {
        check_absent(Some(&turn.0.instance.document))?;
        let mut course = course;
        course.without_parent();
        let what = format!(
            "forked from execution {execution} of {instance_id}, event {}",
            at.event
        );
        Ok((course, restored, action(by, services.store.now(), what)))
    })
    .await?;
    Ok(forked)
}

/// Commits the course that `decide` returns for a locked instance, in this execution. Releases
/// the lock after an error.
async fn commit_or_release(
    services: &Services,
    mut turn: ExclusiveTurn,
    execution: u64,
    decide: impl AsyncFnOnce(&mut ExclusiveTurn) -> Result<(Course, Values, OperatorAction)>,
) -> Result<()> {
    let committed = match decide(&mut turn).await {
        Ok((course, restored, action)) => {
            let result = result(course, restored, execution);
            Box::pin(commit_course(services, &mut turn, &result, action)).await
        }
        Err(error) => Err(error),
    };
    if committed.is_err() {
        turn.release(services).await;
    }
    committed
}

fn action(by: &str, at: Timestamp, what: String) -> OperatorAction {
    let by = by.to_owned();
    OperatorAction { at, by, what }
}

fn check_failed(instance: &Instance) -> Result<()> {
    if instance.status == Status::Failed {
        return Ok(());
    }
    let id = &instance.instance_id;
    Err(Error::Refused(match &instance.held {
        Some(held) => format!("instance `{id}` is held; {}", held.cure()),
        None => format!(
            "instance `{id}` is {}; only failed instances are rewound",
            instance.status
        ),
    }))
}

/// Checks that an instance may be created: it is unknown, or was only locked for its creation.
///
/// # Errors
/// Fails when the instance exists.
fn check_absent(instance: Option<&Instance>) -> Result<()> {
    match instance.filter(|instance| instance.is_created()) {
        Some(instance) => Err(exists(&instance.instance_id)),
        None => Ok(()),
    }
}

fn exists(id: &str) -> Error {
    Error::Refused(format!("instance `{id}` exists; choose another id"))
}

fn described(course: &Course, target: Target<'_>) -> RewindResult {
    let activities = course.activities.iter();
    let activities = activities.filter_map(|activity| match activity {
        WorkItem::ActivityExecute { name, id, .. } => Some(format!("{name} #{id}")),
        _ => None,
    });
    let events = course.messages.iter().filter_map(|message| match message {
        WorkItem::QueueMessage { name, .. } | WorkItem::ExternalRaised { name, .. } => Some(name),
        _ => None,
    });
    RewindResult {
        instance: target.instance.to_owned(),
        execution: target.execution,
        kept: course.kept.len(),
        activities: activities.collect(),
        messages: course.messages.len(),
        events: events.cloned().collect(),
        dropped: course.dropped.clone(),
        raise_again: course.raise_again.clone(),
        children: Vec::new(),
    }
}

/// Returns a course as the result of a turn that starts the next execution, or the first one of a
/// new instance.
fn result(course: Course, restored: Values, execution_id: u64) -> TurnResult {
    TurnResult {
        execution_id,
        metadata: identity(&course),
        history_delta: course.kept,
        worker_items: course.activities,
        orchestrator_items: course.messages,
        cancelled: Vec::new(),
        restored,
    }
}

/// Returns the name and the versions of a course's orchestration, from its first event or from the
/// message that starts it.
fn identity(course: &Course) -> ExecutionMetadata {
    let mut metadata = ExecutionMetadata::default();
    if let Some(event) = course.kept.first()
        && let EventKind::OrchestrationStarted { name, version, .. } = &event.kind
    {
        metadata.orchestration_name = Some(name.clone());
        metadata.orchestration_version = Some(version.clone());
        metadata.pinned_duroxide_version = event.duroxide_version.parse().ok();
    } else if let Some(WorkItem::StartOrchestration {
        orchestration,
        version,
        ..
    }) = course.messages.first()
    {
        metadata.orchestration_name = Some(orchestration.clone());
        metadata.orchestration_version.clone_from(version);
    }
    metadata
}
