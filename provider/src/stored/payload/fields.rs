//! The payloads in duroxide's messages and events. No match has a wildcard: a new kind of message or
//! event must be decided on, or its payload would be stored as plaintext.

use duroxide::providers::WorkItem;
use duroxide::{AppErrorKind, ErrorDetails, EventKind};

/// Returns the payloads of a message.
pub(super) fn of_message(item: &mut WorkItem) -> Vec<&mut String> {
    match item {
        WorkItem::StartOrchestration { input, .. } | WorkItem::ActivityExecute { input, .. } => {
            vec![input]
        }
        WorkItem::ActivityCompleted { result, .. } | WorkItem::SubOrchCompleted { result, .. } => {
            vec![result]
        }
        WorkItem::ActivityFailed { details, .. } | WorkItem::SubOrchFailed { details, .. } => {
            of_error(details)
        }
        WorkItem::ExternalRaised { data, .. } | WorkItem::QueueMessage { data, .. } => vec![data],
        WorkItem::CancelInstance { reason, .. } => vec![reason],
        WorkItem::ContinueAsNew {
            input,
            carry_forward_events,
            initial_custom_status,
            ..
        } => of_execution(input, carry_forward_events, initial_custom_status.as_mut()),
        WorkItem::TimerFired { .. } => Vec::new(),
    }
}

/// Returns the payloads of an event.
pub(super) fn of_event(kind: &mut EventKind) -> Vec<&mut String> {
    match kind {
        EventKind::OrchestrationStarted {
            input,
            carry_forward_events,
            initial_custom_status,
            ..
        } => {
            let carried = carry_forward_events.as_deref_mut().unwrap_or_default();
            of_execution(input, carried, initial_custom_status.as_mut())
        }
        EventKind::ActivityScheduled { input, .. }
        | EventKind::OrchestrationChained { input, .. }
        | EventKind::SubOrchestrationScheduled { input, .. }
        | EventKind::OrchestrationContinuedAsNew { input } => vec![input],
        EventKind::OrchestrationCompleted { output: result }
        | EventKind::ActivityCompleted { result }
        | EventKind::SubOrchestrationCompleted { result } => vec![result],
        EventKind::OrchestrationFailed { details }
        | EventKind::ActivityFailed { details }
        | EventKind::SubOrchestrationFailed { details } => of_error(details),
        EventKind::ExternalEvent { data, .. } | EventKind::QueueEventDelivered { data, .. } => {
            vec![data]
        }
        EventKind::OrchestrationCancelRequested { reason } => vec![reason],
        EventKind::CustomStatusUpdated { status } => status.iter_mut().collect(),
        EventKind::KeyValueSet { value, .. } => vec![value],
        EventKind::ActivityCancelRequested { .. }
        | EventKind::TimerCreated { .. }
        | EventKind::TimerFired { .. }
        | EventKind::ExternalSubscribed { .. }
        | EventKind::SubOrchestrationCancelRequested { .. }
        | EventKind::ExternalSubscribedCancelled { .. }
        | EventKind::QueueSubscribed { .. }
        | EventKind::QueueSubscriptionCancelled { .. }
        | EventKind::KeyValueCleared { .. }
        | EventKind::KeyValuesCleared => Vec::new(),
    }
}

/// Returns the payloads with which an execution starts.
fn of_execution<'a>(
    input: &'a mut String,
    carried: &'a mut [(String, String)],
    status: Option<&'a mut String>,
) -> Vec<&'a mut String> {
    let carried = carried.iter_mut().map(|(_, data)| data);
    std::iter::once(input)
        .chain(carried)
        .chain(status)
        .collect()
}

/// Returns the payloads of error details.
pub(super) fn of_error(details: &mut ErrorDetails) -> Vec<&mut String> {
    match details {
        ErrorDetails::Application {
            kind: AppErrorKind::Cancelled { reason },
            message,
            ..
        } => vec![reason, message],
        ErrorDetails::Infrastructure { message, .. }
        | ErrorDetails::Application { message, .. }
        | ErrorDetails::Poison { message, .. } => vec![message],
        ErrorDetails::Configuration { message, .. } => message.iter_mut().collect(),
    }
}
