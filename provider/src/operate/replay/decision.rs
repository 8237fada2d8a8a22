//! The decisions of an orchestration: the events that its code causes, as opposed to those that
//! arrive.

use duroxide::{Event, EventKind};

/// The number of characters of an input that a difference shows.
const SHOWN: usize = 200;

/// Returns the decisions among events, in the words of [`of`].
pub(super) fn decisions(events: &[Event]) -> Vec<String> {
    events.iter().filter_map(|event| of(&event.kind)).collect()
}

/// Describes the decision of an event, without what differs between two replays, such as the due
/// time of a timer. `None` for an event that arrives, and for cancellations of dropped futures:
/// duroxide records these after the decisions of a turn.
pub(super) fn of(kind: &EventKind) -> Option<String> {
    Some(match kind {
        EventKind::ActivityScheduled {
            name,
            input,
            session_id,
            tag,
        } => {
            let session = session_id.as_ref().map(|id| format!(" in session `{id}`"));
            let tag = tag.as_ref().map(|tag| format!(" with tag `{tag}`"));
            let (session, tag) = (session.unwrap_or_default(), tag.unwrap_or_default());
            format!(
                "activity `{name}` with input `{}`{session}{tag}",
                short(input)
            )
        }
        EventKind::TimerCreated { .. } => "a timer".to_owned(),
        EventKind::ExternalSubscribed { name } => format!("the wait for event `{name}`"),
        EventKind::QueueSubscribed { name } => format!("the wait for queued event `{name}`"),
        EventKind::SubOrchestrationScheduled {
            name,
            instance,
            input,
        } => {
            // Without a name of its own, a child is named by its event.
            let named = if instance.starts_with("sub::") {
                String::new()
            } else {
                format!(", instance `{instance}`")
            };
            format!(
                "sub-orchestration `{name}` with input `{}`{named}",
                short(input)
            )
        }
        EventKind::OrchestrationChained {
            name,
            instance,
            input,
        } => format!(
            "a start of `{name}` as instance `{instance}` with input `{}`",
            short(input)
        ),
        EventKind::CustomStatusUpdated { status } => match status {
            Some(status) => format!("custom status `{}`", short(status)),
            None => "no custom status".to_owned(),
        },
        EventKind::KeyValueSet { key, value, .. } => {
            format!("value `{}` of key `{key}`", short(value))
        }
        EventKind::KeyValueCleared { key } => format!("the removal of key `{key}`"),
        EventKind::KeyValuesCleared => "the removal of all keys".to_owned(),
        _ => return None,
    })
}

/// Describes any event.
pub(super) fn describe(kind: &EventKind) -> String {
    if let Some(decision) = of(kind) {
        return decision;
    }
    match kind {
        EventKind::OrchestrationCompleted { output } => format!("the result `{}`", short(output)),
        EventKind::OrchestrationFailed { details } => {
            format!("the failure `{}`", short(&details.display_message()))
        }
        EventKind::OrchestrationContinuedAsNew { input } => {
            format!("continue-as-new with input `{}`", short(input))
        }
        other => {
            let name = format!("{other:?}");
            name.split([' ', '{']).next().unwrap_or_default().to_owned()
        }
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
