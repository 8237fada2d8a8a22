//! The new course of a rewound or forked instance: the part of its history that is kept, and the
//! messages that continue from there. Pure functions.
//!
//! A history is a sequence of turns. A turn records what has arrived, then what the orchestration
//! decided. So a history that ends with the decisions of a turn can be continued. What arrived later
//! and is not kept arrives again as a message, and what has not arrived is requested again.

use std::collections::{BTreeMap, BTreeSet};

use duroxide::providers::WorkItem;
use duroxide::{ErrorDetails, Event, EventKind, build_child_instance_id};

use crate::stored::history::UNKNOWN_VERSION;

/// The new course of an instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Course {
    /// The history that is kept. Empty when the orchestration starts again.
    pub(super) kept: Vec<Event>,
    /// Messages to the instance: what arrived after the kept history, and timers.
    pub(super) messages: Vec<WorkItem>,
    /// Activities that run, again or at last.
    pub(super) activities: Vec<WorkItem>,
    /// Children whose end the instance waits for.
    pub(super) children: Vec<Child>,
    /// Completed activities and children that are dropped with the decision to run them.
    pub(super) dropped: Vec<String>,
    /// Events that nothing kept waits for. duroxide would ignore them.
    pub(super) raise_again: Vec<String>,
}

/// A child that the new course waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Child {
    /// The event that scheduled the child.
    pub(super) event: u64,
    pub(super) instance: String,
    pub(super) orchestration: String,
    pub(super) input: String,
    /// Whether the recorded history has its failure, so that the child has run.
    pub(super) failed: bool,
}

/// The instance and the execution that take the new course.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) instance: &'a str,
    pub(super) execution: u64,
}

/// Returns the course of a failed execution from before its failure; `None` when the history has no
/// failure. `decoded` decodes stored error details.
///
/// The last turn is dropped. Its failures are forgotten, and everything else of it arrives again. If
/// it has no failure, the cause may be an earlier one that the orchestration remembered.
///
/// # Errors
/// Fails when the cause depends on error details that cannot be decoded.
pub(super) fn before_failure<E>(
    events: &[Event],
    target: Target<'_>,
    decoded: impl Fn(&ErrorDetails) -> Result<ErrorDetails, E>,
) -> Result<Option<Course>, E> {
    let is_end = |event: &Event| matches!(event.kind, EventKind::OrchestrationFailed { .. });
    let Some(end) = events.iter().position(is_end) else {
        return Ok(None);
    };
    let last = turn_start(events, end);
    let is_in_last_turn = events[last..end]
        .iter()
        .any(|event| failure(event).is_some());
    let earlier = if is_in_last_turn {
        None
    } else {
        cause(&events[..last], &events[end], decoded)?
    };
    let (cut, forgotten) = match earlier {
        None => (last, None),
        Some(cause) => match turn_start(events, cause) {
            start if is_remembered(events, start, cause) => (last, Some(cause)),
            start => (start, None),
        },
    };
    Ok(Some(course(events, cut, forgotten, target)))
}

/// Returns the position of the latest failure whose message is part of the final error.
fn cause<E>(
    events: &[Event],
    end: &Event,
    decoded: impl Fn(&ErrorDetails) -> Result<ErrorDetails, E>,
) -> Result<Option<usize>, E> {
    let failures = events.iter().enumerate();
    let failures = failures.filter_map(|(at, event)| Some((at, failure(event)?)));
    let mut failures = failures.rev().peekable();
    let (Some(_), Some(last)) = (failures.peek(), failure(end)) else {
        return Ok(None);
    };
    let error = decoded(last)?.display_message();
    for (at, details) in failures {
        let message = message(&decoded(details)?);
        if !message.is_empty() && error.contains(&message) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Returns the course that continues before the turn of an event. What arrived later does not arrive
/// again. `None` when the history has no such event.
pub(super) fn before_event(events: &[Event], event: u64, target: Target<'_>) -> Option<Course> {
    let at = events.iter().position(|found| found.event_id == event)?;
    let start = turn_start(events, at);
    // The start alone, because it may have to be repeated.
    let history = &events[..start.max(1)];
    Some(course(history, start, None, target))
}

/// Returns the position at which the turn begins that recorded the event at `at`.
fn turn_start(events: &[Event], at: usize) -> usize {
    let decided = events[..=at]
        .iter()
        .rposition(has_arrived)
        .unwrap_or_default();
    let before = events[..=decided]
        .iter()
        .rposition(|event| !has_arrived(event));
    before.map_or(0, |before| before + 1)
}

/// Returns whether an event records something that arrived, and not a decision.
fn has_arrived(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::OrchestrationStarted { .. }
            | EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. }
            | EventKind::TimerFired { .. }
            | EventKind::ExternalEvent { .. }
            | EventKind::QueueEventDelivered { .. }
            | EventKind::OrchestrationCancelRequested { .. }
    )
}

/// Returns the error of a failed activity, child or orchestration.
fn failure(event: &Event) -> Option<&ErrorDetails> {
    match &event.kind {
        EventKind::ActivityFailed { details }
        | EventKind::SubOrchestrationFailed { details }
        | EventKind::OrchestrationFailed { details } => Some(details),
        _ => None,
    }
}

fn message(details: &ErrorDetails) -> String {
    match details {
        ErrorDetails::Application { message, .. } => message.clone(),
        other => other.display_message(),
    }
}

/// Returns whether the turn of a failure decided nothing because of the failure: something else
/// arrived with it, and no decision is a retry. Removing the failure then changes no decision.
fn is_remembered(events: &[Event], start: usize, cause: usize) -> bool {
    let arrived = events[start..]
        .iter()
        .take_while(|event| has_arrived(event));
    let mut others = arrived.filter(|event| failure(event).is_none());
    let id = events[cause].source_event_id;
    let failed = events.iter().find(|event| Some(event.event_id) == id);
    let name = failed.and_then(scheduled_name);
    let is_retry = |event: &Event| match event.kind {
        EventKind::TimerCreated { .. } => {
            let fired = events.iter().position(|later| {
                matches!(later.kind, EventKind::TimerFired { .. })
                    && later.source_event_id == Some(event.event_id)
            });
            fired.is_some_and(|fired| {
                decisions(events, fired)
                    .any(|event| name.is_some() && scheduled_name(event) == name)
            })
        }
        _ => name.is_some() && scheduled_name(event) == name,
    };
    others.next().is_some() && !decisions(events, start).any(is_retry)
}

/// Returns the decisions of the turn in which the event at `at` arrived.
fn decisions(events: &[Event], at: usize) -> impl Iterator<Item = &Event> {
    let decided = events[at..].iter().skip_while(|event| has_arrived(event));
    decided.take_while(|event| !has_arrived(event))
}

fn scheduled_name(event: &Event) -> Option<&str> {
    match &event.kind {
        EventKind::ActivityScheduled { name, .. }
        | EventKind::SubOrchestrationScheduled { name, .. } => Some(name),
        _ => None,
    }
}

/// Returns the course that keeps the events before `cut`, without the failure at `forgotten`.
fn course(events: &[Event], cut: usize, forgotten: Option<usize>, target: Target<'_>) -> Course {
    let (before, after) = events.split_at(cut);
    let kept = before.iter().enumerate();
    let kept = kept.filter(|(at, _)| Some(*at) != forgotten);
    let kept: Vec<&Event> = kept.map(|(_, event)| event).collect();
    let mut course = Course::default();
    if kept.is_empty() {
        let again = after
            .first()
            .and_then(|started| start_again(started, after, target));
        course.messages.extend(again.into_iter().flatten());
    }
    let mut open = Open::of(&kept);
    for event in after
        .iter()
        .filter(|event| has_arrived(event) && failure(event).is_none())
    {
        if let EventKind::ExternalEvent { name, .. } = &event.kind
            && !open.takes_event(name)
        {
            course.raise_again.push(name.clone());
        } else if let Some(message) = arrives_again(event, &mut open, target) {
            course.messages.push(message);
        } else if let Some(dropped) = event.source_event_id {
            course.dropped.extend(named(after, dropped));
        }
    }
    open.request(&mut course, target);
    for child in &mut course.children {
        let mut ends = events.iter().filter(|event| failure(event).is_some());
        child.failed = ends.any(|end| end.source_event_id == Some(child.event));
    }
    course.kept = kept.into_iter().map(|event| moved(event, target)).collect();
    course
}

/// Describes the activity or child that an event has scheduled.
fn named(events: &[Event], id: u64) -> Option<String> {
    let scheduled = events.iter().find(|event| event.event_id == id);
    let name = scheduled.and_then(scheduled_name)?;
    Some(format!("{name} #{id}"))
}

/// What a kept history waits for.
struct Open<'a> {
    /// Schedules without an end.
    schedules: BTreeMap<u64, &'a EventKind>,
    /// Subscriptions without an event, by name.
    events: BTreeMap<&'a str, usize>,
}

impl<'a> Open<'a> {
    fn of(kept: &[&'a Event]) -> Self {
        let ended = kept.iter().filter_map(|event| event.source_event_id);
        let ended: BTreeSet<u64> = ended.collect();
        let mut events = BTreeMap::<&str, usize>::new();
        for event in kept {
            match &event.kind {
                EventKind::ExternalSubscribed { name } => *events.entry(name).or_default() += 1,
                EventKind::ExternalEvent { name, .. } => {
                    if let Some(waiting) = events.get_mut(&**name) {
                        *waiting = waiting.saturating_sub(1);
                    }
                }
                _ => {}
            }
        }
        let schedules = kept.iter().filter(|event| !ended.contains(&event.event_id));
        let schedules = schedules
            .map(|event| (event.event_id, &event.kind))
            .collect();
        Self { schedules, events }
    }

    /// Takes an event for a subscription, if there is one.
    fn takes_event(&mut self, name: &str) -> bool {
        let waiting = self.events.get_mut(name).filter(|waiting| **waiting > 0);
        let Some(waiting) = waiting else { return false };
        *waiting -= 1;
        true
    }

    /// Requests what has not ended.
    fn request(&self, course: &mut Course, target: Target<'_>) {
        for (&id, kind) in &self.schedules {
            match kind {
                EventKind::ActivityScheduled {
                    name,
                    input,
                    session_id,
                    tag,
                } => course.activities.push(WorkItem::ActivityExecute {
                    instance: target.instance.to_owned(),
                    execution_id: target.execution,
                    id,
                    name: name.clone(),
                    input: input.clone(),
                    session_id: session_id.clone(),
                    tag: tag.clone(),
                }),
                EventKind::TimerCreated { fire_at_ms } => {
                    course.messages.push(timer(id, *fire_at_ms, target));
                }
                EventKind::SubOrchestrationScheduled {
                    name,
                    instance,
                    input,
                } => course.children.push(Child {
                    event: id,
                    instance: build_child_instance_id(target.instance, instance),
                    orchestration: name.clone(),
                    input: input.clone(),
                    failed: false,
                }),
                _ => {}
            }
        }
    }
}

/// Returns the message of an event that arrives again; `None` when nothing kept waits for it.
fn arrives_again(event: &Event, open: &mut Open<'_>, target: Target<'_>) -> Option<WorkItem> {
    let instance = target.instance.to_owned();
    match &event.kind {
        EventKind::ExternalEvent { name, data } => Some(WorkItem::ExternalRaised {
            instance,
            name: name.clone(),
            data: data.clone(),
        }),
        EventKind::QueueEventDelivered { name, data } => Some(WorkItem::QueueMessage {
            instance,
            name: name.clone(),
            data: data.clone(),
        }),
        kind => {
            let id = event.source_event_id?;
            open.schedules.remove(&id)?;
            match kind {
                EventKind::ActivityCompleted { result } => Some(WorkItem::ActivityCompleted {
                    instance,
                    execution_id: target.execution,
                    id,
                    result: result.clone(),
                }),
                EventKind::SubOrchestrationCompleted { result } => {
                    Some(WorkItem::SubOrchCompleted {
                        parent_instance: instance,
                        parent_execution_id: target.execution,
                        parent_id: id,
                        result: result.clone(),
                    })
                }
                EventKind::TimerFired { fire_at_ms } => Some(timer(id, *fire_at_ms, target)),
                _ => None,
            }
        }
    }
}

fn timer(id: u64, fire_at_ms: u64, target: Target<'_>) -> WorkItem {
    WorkItem::TimerFired {
        instance: target.instance.to_owned(),
        execution_id: target.execution,
        id,
        fire_at_ms,
    }
}

/// Returns the messages that start an execution again: its start, and the queued events that it was
/// given, except those that these events record.
fn start_again(started: &Event, events: &[Event], target: Target<'_>) -> Option<Vec<WorkItem>> {
    let EventKind::OrchestrationStarted {
        name,
        version,
        input,
        parent_instance,
        parent_id,
        parent_execution_id,
        carry_forward_events,
        ..
    } = &started.kind
    else {
        return None;
    };
    let start = WorkItem::StartOrchestration {
        instance: target.instance.to_owned(),
        orchestration: name.clone(),
        input: input.clone(),
        version: Some(version.clone()).filter(|version| version != UNKNOWN_VERSION),
        parent_instance: parent_instance.clone(),
        parent_id: *parent_id,
        parent_execution_id: *parent_execution_id,
        execution_id: target.execution,
    };
    // duroxide records them again, in front of the others, when it runs the first turn.
    let mut recorded: Vec<_> = events.iter().filter_map(queued).collect();
    let carried = carry_forward_events.iter().flatten();
    let carried = carried.filter(|(name, data)| {
        let at = recorded.iter().position(|event| *event == (name, data));
        at.map(|at| recorded.remove(at)).is_none()
    });
    let carried = carried.map(|(name, data)| WorkItem::QueueMessage {
        instance: target.instance.to_owned(),
        name: name.clone(),
        data: data.clone(),
    });
    Some(std::iter::once(start).chain(carried).collect())
}

/// Returns the queue and the data of a queued event.
fn queued(event: &Event) -> Option<(&String, &String)> {
    match &event.kind {
        EventKind::QueueEventDelivered { name, data } => Some((name, data)),
        _ => None,
    }
}

/// Returns an event as one of the new course.
fn moved(event: &Event, target: Target<'_>) -> Event {
    Event {
        instance_id: target.instance.to_owned(),
        execution_id: target.execution,
        ..event.clone()
    }
}

impl Course {
    /// Sends the end of the instance to another execution of its parent.
    pub(super) fn for_parent(&mut self, execution: u64) {
        for event in &mut self.kept {
            if let EventKind::OrchestrationStarted {
                parent_execution_id,
                ..
            } = &mut event.kind
            {
                *parent_execution_id = Some(execution);
            }
        }
        for message in &mut self.messages {
            if let WorkItem::StartOrchestration {
                parent_execution_id,
                ..
            } = message
            {
                *parent_execution_id = Some(execution);
            }
        }
    }

    /// Makes the instance one without a parent.
    pub(super) fn without_parent(&mut self) {
        for event in &mut self.kept {
            if let EventKind::OrchestrationStarted {
                parent_instance,
                parent_id,
                parent_execution_id,
                ..
            } = &mut event.kind
            {
                (*parent_instance, *parent_id, *parent_execution_id) = (None, None, None);
            }
        }
        for message in &mut self.messages {
            if let WorkItem::StartOrchestration {
                parent_instance,
                parent_id,
                parent_execution_id,
                ..
            } = message
            {
                (*parent_instance, *parent_id, *parent_execution_id) = (None, None, None);
            }
        }
    }
}
