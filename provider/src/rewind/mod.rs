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
use duroxide::providers::{ExecutionMetadata, ProviderError, WorkItem};
use duroxide::{ErrorDetails, Event, EventKind};

use crate::admin::instances;
use crate::admission;
use crate::commit;
use crate::documents::{Instance, OperatorAction, Status};
use crate::error::{Error, InOperation as _, Result};
use crate::history;
use crate::instances::TurnResult;
use crate::provider::CosmosDBProvider;
use crate::turn::{ExclusiveTurn, exclusively};
pub use restart::Restart;

use course::{Course, Target, before_event, before_failure};
use values::{Keys, Values};

/// A new course of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewound {
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
    /// The completed activities and children that are dropped, because the orchestration decided to
    /// run them after its failure. Their effects remain.
    pub dropped: Vec<String>,
    /// The names of events that must be raised again, because they arrived after the kept history.
    pub lost_events: Vec<String>,
    /// The failed children that are rewound too.
    pub children: Vec<Rewound>,
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

impl CosmosDBProvider {
    /// Continues a failed instance from before its failure, in a new execution. Failed activities
    /// run again, completed ones keep their results, and failed children are rewound too. The failed
    /// execution stays readable.
    ///
    /// May be repeated after an interruption. docs/rewind.md says what counts as the failure. `by` is
    /// the operator, for the record.
    ///
    /// # Errors
    /// Fails when the instance has not failed or is a sub-orchestration, when a child that it waits
    /// for is still running for the failed execution or was deleted after its failure, or when its
    /// history, or the errors that tell the cause, cannot be read. An instance that a runtime holds
    /// is a retryable error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let emulator = cdb_emulator::Emulator::start().await?;
    /// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
    /// let refused = store.rewind("order-7", "ada").await.unwrap_err();
    /// assert!(refused.message.contains("instance order-7 not found"));
    /// # Ok(()) }
    /// ```
    pub async fn rewind(&self, instance: &str, by: &str) -> Result<Rewound, ProviderError> {
        self.rewind_below(instance, None, Some(by))
            .await
            .in_operation("rewind")
    }

    /// Returns what [`rewind`](Self::rewind) would do. Writes nothing.
    ///
    /// # Errors
    /// As [`rewind`](Self::rewind).
    pub async fn plan_rewind(&self, instance: &str) -> Result<Rewound, ProviderError> {
        self.rewind_below(instance, None, None)
            .await
            .in_operation("plan_rewind")
    }

    /// Creates an instance that continues from the history of another one, with the key-values from
    /// before the forked execution. Activities and timers that the kept events wait for start again;
    /// events and queued messages that arrived later have to be raised again.
    ///
    /// # Errors
    /// Fails when the instance has no such execution or event, when the new instance exists, or when
    /// the kept events wait for a child: the child belongs to the first instance.
    pub async fn fork(
        &self,
        instance: &str,
        at: Fork<'_>,
        by: &str,
    ) -> Result<Rewound, ProviderError> {
        self.fork_at(instance, at, by).await.in_operation("fork")
    }

    /// Rewinds an instance; only plans without an operator. With `parent`, its end is sent to that
    /// execution of its parent.
    async fn rewind_below(
        &self,
        instance_id: &str,
        parent: Option<u64>,
        by: Option<&str>,
    ) -> Result<Rewound> {
        let instance = instances::existing(self.container(), instance_id).await?;
        check_failed(&instance)?;
        if let (None, Some(above)) = (parent, &instance.parent_instance_id) {
            return Err(Error::Refused(format!(
                "`{instance_id}` is a sub-orchestration of `{above}`, which has received its failure; \
                 rewind `{above}`, which rewinds its failed children"
            )));
        }
        let execution = instance.current_execution_id;
        let target = Target {
            instance: instance_id,
            execution: execution + 1,
        };
        let events = history::read_execution(self.container(), instance_id, execution).await?;
        let mut course = self.rewound_course(&events, target)?;
        if let Some(parent) = parent {
            course.for_parent(parent);
        }
        let mut failed = Vec::new();
        for child in &course.children {
            if self.is_rewindable(child, target.execution).await? {
                failed.push(child);
            }
        }
        // After all of them are checked: a refusal must not leave some of them rewound.
        let mut children = Vec::new();
        for child in failed {
            let child = self.rewind_below(&child.instance, Some(target.execution), by);
            children.push(Box::pin(child).await?);
        }
        let rewound = Rewound {
            children,
            ..described(&course, target)
        };
        if let Some(by) = by {
            self.commit_rewind(course, target, &events, by).await?;
        }
        Ok(rewound)
    }

    /// Commits the course of a failed execution that has these events.
    async fn commit_rewind(
        &self,
        mut course: Course,
        target: Target<'_>,
        events: &[Event],
        by: &str,
    ) -> Result<()> {
        let (id, failed) = (target.instance, target.execution - 1);
        let restored = values::before(self, id, failed, Keys::changed_by(events)).await?;
        let turn = exclusively(&self.services, id, failed).await?;
        self.commit_or_release(turn, target.execution, async |store, turn| {
            check_failed(&turn.0.instance.document)?;
            if *turn.0.events().unwrap_or_default() != events {
                let what = format!("instance `{id}` has changed; try again");
                return Err(Error::Retryable(what));
            }
            let awaiting = Box::pin(store.await_children(&mut course, target));
            turn.while_doing(&store.services, awaiting).await?;
            let what = format!("rewound to {} events", course.kept.len());
            Ok((course, restored, action(by, store.container().now(), what)))
        })
        .await
    }

    fn rewound_course(&self, events: &[Event], target: Target<'_>) -> Result<Course> {
        let decoded = |details: &ErrorDetails| self.payloads().decoded_error(details);
        before_failure(events, target, decoded)?.ok_or_else(|| {
            Error::Refused(format!(
                "the history of `{}` has no failure; restart it instead",
                target.instance
            ))
        })
    }

    async fn fork_at(&self, instance_id: &str, at: Fork<'_>, by: &str) -> Result<Rewound> {
        let container = self.container();
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
                "execution {execution} of `{instance_id}` has no event {}; `cdb instances history` lists them",
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
        let mut restored = values::before(self, instance_id, execution, Keys::all()).await?;
        for value in restored.values_mut().flatten() {
            at.new_instance.clone_into(&mut value.instance_id);
        }
        restored.retain(|_, value| value.is_some());
        let forked = described(&course, target);
        let turn = exclusively(&self.services, at.new_instance, 1).await?;
        self.commit_or_release(turn, target.execution, async |store, turn| {
            check_absent(Some(&turn.0.instance.document))?;
            let mut course = course;
            course.without_parent();
            let what = format!(
                "forked from execution {execution} of {instance_id}, event {}",
                at.event
            );
            Ok((course, restored, action(by, store.container().now(), what)))
        })
        .await?;
        Ok(forked)
    }

    /// Commits the course that `decide` returns for a locked instance, in this execution. Releases
    /// the lock after an error.
    async fn commit_or_release(
        &self,
        mut turn: ExclusiveTurn,
        execution: u64,
        decide: impl AsyncFnOnce(&Self, &mut ExclusiveTurn) -> Result<(Course, Values, OperatorAction)>,
    ) -> Result<()> {
        let committed = match decide(self, &mut turn).await {
            Ok((course, restored, action)) => {
                let result = result(course, restored, execution);
                commit::commit_course(&self.services, &mut turn.0, &result, action).await
            }
            Err(error) => Err(error),
        };
        if committed.is_err() {
            turn.release(&self.services).await;
        }
        committed
    }
}

fn action(by: &str, at: Timestamp, what: String) -> OperatorAction {
    let by = by.to_owned();
    OperatorAction { at, by, what }
}

fn check_failed(instance: &Instance) -> Result<()> {
    if instance.status == Status::Failed {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "instance `{}` is {}; only failed instances are rewound",
        instance.instance_id, instance.status
    )))
}

/// Checks that an instance may be created: it is unknown, or was only locked for its creation.
///
/// # Errors
/// Fails when the instance exists.
fn check_absent(instance: Option<&Instance>) -> Result<()> {
    match instance.filter(|instance| instance.is_created()) {
        Some(instance) => Err(Error::Refused(format!(
            "instance `{}` exists; choose another id",
            instance.instance_id
        ))),
        None => Ok(()),
    }
}

fn described(course: &Course, target: Target<'_>) -> Rewound {
    let activities = course.activities.iter();
    let activities = activities.filter_map(|activity| match activity {
        WorkItem::ActivityExecute { name, id, .. } => Some(format!("{name} #{id}")),
        _ => None,
    });
    Rewound {
        instance: target.instance.to_owned(),
        execution: target.execution,
        kept: course.kept.len(),
        activities: activities.collect(),
        messages: course.messages.len(),
        dropped: course.dropped.clone(),
        lost_events: course.lost_events.clone(),
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
