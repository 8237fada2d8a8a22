//! Courses from recorded histories.

use std::convert::Infallible;

use duroxide::providers::WorkItem;
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind};

use super::course::{Course, Target, before_event, before_failure};

const TARGET: Target<'_> = Target {
    instance: "i",
    execution: 2,
};

fn error(message: &str) -> ErrorDetails {
    ErrorDetails::Application {
        kind: AppErrorKind::OrchestrationFailed,
        message: message.to_owned(),
        retryable: false,
    }
}

fn started() -> (Option<u64>, EventKind) {
    let kind = EventKind::OrchestrationStarted {
        name: "Order".to_owned(),
        version: "1.0.0".to_owned(),
        input: "input".to_owned(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: Some(vec![("Queue".to_owned(), "carried".to_owned())]),
        initial_custom_status: None,
    };
    (None, kind)
}

fn schedule(name: &str) -> (Option<u64>, EventKind) {
    let kind = EventKind::ActivityScheduled {
        name: name.to_owned(),
        input: "input".to_owned(),
        session_id: None,
        tag: None,
    };
    (None, kind)
}

fn completed(of: u64) -> (Option<u64>, EventKind) {
    let result = "result".to_owned();
    (Some(of), EventKind::ActivityCompleted { result })
}

fn failed(of: u64, message: &str) -> (Option<u64>, EventKind) {
    let details = error(message);
    (Some(of), EventKind::ActivityFailed { details })
}

fn timer() -> (Option<u64>, EventKind) {
    (None, EventKind::TimerCreated { fire_at_ms: 7 })
}

fn fired(of: u64) -> (Option<u64>, EventKind) {
    (Some(of), EventKind::TimerFired { fire_at_ms: 7 })
}

fn cancelled(of: u64) -> (Option<u64>, EventKind) {
    let reason = "dropped".to_owned();
    (Some(of), EventKind::ActivityCancelRequested { reason })
}

fn end(message: &str) -> (Option<u64>, EventKind) {
    let details = error(message);
    (None, EventKind::OrchestrationFailed { details })
}

fn history(kinds: Vec<(Option<u64>, EventKind)>) -> Vec<Event> {
    let events = kinds.into_iter().zip(1..);
    events
        .map(|((source, kind), id)| Event::with_event_id(id, "i", 1, source, kind))
        .collect()
}

fn course_of(events: &[Event]) -> Option<Course> {
    let decoded = |details: &ErrorDetails| Ok::<_, Infallible>(details.clone());
    let Ok(course) = before_failure(events, TARGET, decoded);
    course
}

fn rewound(kinds: Vec<(Option<u64>, EventKind)>) -> Course {
    course_of(&history(kinds)).expect("it failed")
}

/// The ids of the kept events, and of the activities and messages that follow.
fn ids(course: &Course) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
    let id = |item: &WorkItem| match item {
        WorkItem::ActivityExecute { id, .. }
        | WorkItem::ActivityCompleted { id, .. }
        | WorkItem::TimerFired { id, .. } => *id,
        _ => 0,
    };
    (
        course.kept.iter().map(|event| event.event_id).collect(),
        course.activities.iter().map(id).collect(),
        course.messages.iter().map(id).collect(),
    )
}

#[test]
fn the_last_turn_is_dropped_and_what_it_brought_arrives_again() {
    let course = rewound(vec![
        started(),
        schedule("A"),
        schedule("B"),
        completed(2),
        failed(3, "broken"),
        end("broken"),
        cancelled(2),
    ]);
    assert_eq!(ids(&course), (vec![1, 2, 3], vec![3], vec![2]));
    assert!(course.kept.iter().all(|event| event.execution_id == 2));
}

#[test]
fn a_retried_failure_is_kept_and_the_last_attempt_runs_again() {
    let course = rewound(vec![
        started(),
        schedule("A"),
        failed(2, "broken"),
        timer(),
        fired(4),
        schedule("A"),
        failed(6, "broken"),
        end("broken"),
    ]);
    assert_eq!(ids(&course), (vec![1, 2, 3, 4, 5, 6], vec![6], vec![]));
}

#[test]
fn a_remembered_failure_is_removed_and_later_work_is_kept() {
    let course = rewound(vec![
        started(),
        schedule("Broken"),
        schedule("B"),
        completed(3),
        failed(2, "broken"),
        timer(),
        fired(6),
        schedule("C"),
        completed(8),
        end("broken"),
    ]);
    let kept = vec![1, 2, 3, 4, 6, 7, 8];
    assert_eq!(ids(&course), (kept, vec![2], vec![8]));
}

#[test]
fn a_failure_that_was_reacted_to_is_the_end_of_the_kept_history() {
    let course = rewound(vec![
        started(),
        schedule("A"),
        completed(2),
        schedule("Charge"),
        failed(4, "no money"),
        schedule("Cancel"),
        completed(6),
        end("cannot charge: no money"),
    ]);
    assert_eq!(ids(&course), (vec![1, 2, 3, 4], vec![4], vec![]));
    assert_eq!(course.dropped, ["Cancel #6"]);
}

#[test]
fn a_loser_of_a_race_does_not_run_and_an_open_timer_is_set_again() {
    let course = rewound(vec![
        started(),
        schedule("Loser"),
        timer(),
        schedule("Winner"),
        completed(4),
        cancelled(2),
        schedule("Broken"),
        failed(7, "broken"),
        end("broken"),
    ]);
    assert_eq!(ids(&course), (vec![1, 2, 3, 4, 5, 6, 7], vec![7], vec![3]));
}

#[test]
fn a_failure_of_the_first_turn_starts_again_with_the_carried_events() {
    let course = rewound(vec![started(), schedule("A"), end("at once"), cancelled(2)]);
    assert_eq!((course.kept.len(), course.activities.len()), (0, 0));
    assert!(matches!(
        course.messages[..],
        [
            WorkItem::StartOrchestration {
                execution_id: 2,
                ..
            },
            WorkItem::QueueMessage { .. }
        ]
    ));
}

/// duroxide records carried events as delivered in the first turn.
#[test]
fn a_carried_event_arrives_again_once() {
    let delivered = |data: &str| {
        let (name, data) = ("Queue".to_owned(), data.to_owned());
        (None, EventKind::QueueEventDelivered { name, data })
    };
    let first_turn = [
        started(),
        delivered("carried"),
        delivered("carried"),
        schedule("A"),
        end("at once"),
    ];
    let course = rewound(first_turn.to_vec());
    let events = course.messages.iter().filter_map(|message| match message {
        WorkItem::QueueMessage { data, .. } => Some(&**data),
        _ => None,
    });
    assert_eq!(events.collect::<Vec<_>>(), ["carried", "carried"]);
}

#[test]
fn a_fork_keeps_the_events_before_the_turn_of_the_event() {
    let events = history(vec![
        started(),
        schedule("A"),
        schedule("B"),
        completed(2),
        completed(3),
        schedule("C"),
        completed(6),
        end("later"),
    ]);
    let at = |event| before_event(&events, event, TARGET).map(|course| ids(&course));
    // Both completions arrived in one turn.
    for event in [4, 5, 6] {
        assert_eq!(at(event), Some((vec![1, 2, 3], vec![2, 3], vec![])));
    }
    assert_eq!(at(8), Some((vec![1, 2, 3, 4, 5, 6], vec![6], vec![])));
    assert_eq!(at(1), at(3));
    assert_eq!(at(9), None);
}

#[test]
fn an_event_arrives_again_only_for_a_kept_subscription() {
    let subscribed = || {
        let name = "Event".to_owned();
        (None, EventKind::ExternalSubscribed { name })
    };
    let raised = || {
        let (name, data) = ("Event".to_owned(), "data".to_owned());
        (None, EventKind::ExternalEvent { name, data })
    };
    let course = rewound(vec![
        started(),
        subscribed(),
        raised(),
        raised(),
        end("broken"),
    ]);
    assert_eq!((course.kept.len(), course.messages.len()), (2, 1));
    assert_eq!(course.raise_again, ["Event"]);
}

#[test]
fn a_history_without_a_failure_has_no_course() {
    let events = history(vec![started(), schedule("A")]);
    assert_eq!(course_of(&events), None);
}
