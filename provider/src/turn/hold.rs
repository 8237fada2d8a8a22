//! Holds an instance whose turn the code of this process cannot execute: the code does not replay the
//! history, or the orchestration is not registered. Nothing of the turn is stored but the reason, so
//! that a runtime with other code continues where the instance was.
//!
//! duroxide fails such an instance: at once (`ConfigErrorKind::Nondeterminism`), or after
//! `max_attempts` abandoned turns (duroxide 0.1.32, `process_orchestration_item`).

use cdb_coordination::lease::execute_fenced;
use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};
use duroxide::{
    AppErrorKind, ConfigErrorKind, ErrorDetails, Event, EventKind, build_child_instance_id,
};
use metrics::counter;

use super::arrivals;
use super::hand_out::identity;
use super::unlock::Unlock;
use crate::error::{Result, committed};
use crate::queue::Services;
use crate::queue::instances::lock::attempts_before;
use crate::queue::instances::{Message, RejectedCommit, Turn, TurnResult};
use crate::stored::documents::{Hold, HoldCause};
use crate::stored::history::{UNKNOWN_VERSION, open_schedules};
use crate::stored::payload::Payloads;

/// The most characters of a stored reason. It may quote an input.
const LONGEST_REASON: usize = 2_000;

/// The differences that duroxide finds in messages and histories without running code, so that no
/// code can continue (duroxide 0.1.32, `replay_engine.rs`).
const OF_NO_CODE: [&str; 4] = [
    "corrupted history",
    "no matching schedule",
    "completion kind mismatch",
    "completion without open schedule",
];

/// How a turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Committed,
    Abandoned,
    /// The instance is held.
    Held,
}

impl Ended {
    /// Returns the label of metrics and spans.
    pub(crate) fn outcome(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Abandoned => "abandoned",
            Self::Held => "held",
        }
    }
}

/// Why the code cannot execute a turn.
#[derive(Debug)]
pub(super) struct Reason {
    cause: HoldCause,
    text: String,
}

/// Returns why the result of a turn must not be stored; `None` unless its code did not repeat the
/// recorded decisions.
pub(super) fn nondeterminism(services: &Services, result: &TurnResult) -> Option<Reason> {
    let mut events = result.history_delta.iter();
    let details = events.find_map(|event| match &event.kind {
        EventKind::OrchestrationFailed { details } if services.store.holds => Some(details),
        _ => None,
    })?;
    let ErrorDetails::Configuration {
        kind: ConfigErrorKind::Nondeterminism,
        message,
        ..
    } = details
    else {
        return None;
    };
    let text = message.clone().unwrap_or_default();
    let is_of_code = !OF_NO_CODE.iter().any(|start| text.starts_with(start));
    // An activity or a sub-orchestration has failed with the error. The code of this instance differs
    // in nothing.
    let is_own = !result.history_delta.iter().any(|event| {
        matches!(&event.kind,
            EventKind::ActivityFailed { details: cause } | EventKind::SubOrchestrationFailed { details: cause }
                if cause == details)
    });
    let cause = HoldCause::Nondeterminism;
    (is_of_code && is_own).then_some(Reason { cause, text })
}

/// Returns why an abandoned turn is held; `None` unless its orchestration is not registered. duroxide
/// abandons a readable turn with a delay for this reason, or because the start of a continued
/// execution is not visible yet. A caller without a runtime may have any reason.
pub(super) fn unregistered(services: &Services, turn: &Turn) -> Option<Reason> {
    let history = turn.events()?;
    let is_starting = turn.messages.iter().any(|m| m.orchestration().is_some());
    if !services.store.holds
        || !(turn.caller.is_runtime() || services.queues.is_legacy())
        || (is_continued(&history) && !is_starting)
    {
        return None;
    }
    let (name, version) = wanted(turn, &history);
    let version = version.map_or_else(String::new, |version| format!(", version {version},"));
    Some(Reason {
        cause: HoldCause::Unregistered,
        text: format!("orchestration `{name}`{version} is not registered"),
    })
}

/// Returns the orchestration and the version that a turn executes.
fn wanted(turn: &Turn, history: &[Event]) -> (String, Option<String>) {
    let mut items = turn.messages.iter().filter_map(|m| m.content.item());
    let continued = items.find_map(|item| match item {
        WorkItem::ContinueAsNew {
            orchestration,
            version,
            ..
        } => Some((orchestration.clone(), version.clone())),
        _ => None,
    });
    continued.unwrap_or_else(|| identity(&turn.instance.document, history, &turn.messages))
}

/// Ends a turn without a result and without an attempt, and stores the reason, unless the store has
/// it already and the turn has no stored lock. A failure of the write is not reported, because the
/// runtime would fail the orchestration with it. The lock expires then.
pub(super) async fn hold(services: &Services, turn: &mut Turn, reason: Reason) {
    if turn.begins_unstored() {
        // Once its caller has stored the start, the next turn is held.
        return services.instances().finish(turn);
    }
    let id = turn.instance.document.instance_id.clone();
    let known = turn.instance.document.held.clone();
    let is_stored = known.is_some() && !turn.is_locked();
    let stored = if is_stored {
        Ok(None)
    } else {
        store(services, turn, reason).await.map(Some)
    };
    match stored {
        Ok(None) => {}
        Ok(Some(hold)) => {
            let (cause, event) = (hold.cause.as_str(), hold.event);
            if known.is_none() {
                counter!("cdb.provider.instances.held", "cause" => cause).increment(1);
            }
            let (orchestration, version) = (hold.orchestration, hold.version);
            tracing::error!(instance = %id, cause, orchestration, version, event, "the code of this process cannot execute the instance, which is held for other code");
        }
        Err(error) => {
            tracing::warn!(instance = %id, %error, "cannot store why an instance is held");
        }
    }
    services.instances().finish_for_other_code(turn);
}

/// Stores why the instance is held, and releases its lock.
async fn store(services: &Services, turn: &mut Turn, reason: Reason) -> Result<Hold> {
    let hold = described(services, turn, &reason)?;
    let attempts = attempts_before(turn);
    let mut unlock = Unlock::new(services.container(), turn, attempts).with_hold(hold.clone());
    committed(execute_fenced(&mut unlock).await?).map(|_| hold)
}

/// Returns what is stored of a reason.
fn described(services: &Services, turn: &Turn, reason: &Reason) -> Result<Hold> {
    let payloads = &services.store.payloads;
    let history = payloads.decode_history(turn.events().unwrap_or_default().to_vec())?;
    let (orchestration, version) = wanted(turn, &history);
    let mut text: String = reason.text.chars().take(LONGEST_REASON).collect();
    payloads.encode_all([&mut text])?;
    let before = turn.instance.document.held.as_ref();
    let since = before.map_or_else(|| services.store.now(), |before| before.since);
    Ok(Hold {
        since,
        cause: reason.cause,
        orchestration,
        version,
        event: differing_event(&history, &reason.text),
        reason: text,
        by: services.store.runtime.to_string(),
    })
}

/// Returns the event that duroxide's message quotes, unless several are equal (duroxide 0.1.32,
/// `replay_engine.rs`: `schedule mismatch: action={:?} vs event={:?}`).
fn differing_event(history: &[Event], message: &str) -> Option<u64> {
    let (_, quoted) = message.rsplit_once(" vs event=")?;
    let mut equal = history
        .iter()
        .filter(|event| format!("{:?}", event.kind) == quoted);
    let first = equal.next()?;
    equal.next().is_none().then_some(first.event_id)
}

/// Returns the result of a turn that a message cancels and that no code executes: what duroxide
/// commits for a cancelled turn, with the events that have arrived. `None` if no message cancels it.
///
/// # Errors
/// Fails when a payload cannot be decoded.
pub(super) fn cancelled(services: &Services, turn: &Turn) -> Result<Option<TurnResult>> {
    let mut all = turn.messages.iter();
    let Some(message) = all.find(|message| message.is_cancellation()) else {
        return Ok(None);
    };
    let payloads = &services.store.payloads;
    let Some(WorkItem::CancelInstance { reason, .. }) = decoded(payloads, message)? else {
        return Ok(None);
    };
    let mut messages = Vec::new();
    for message in &turn.messages {
        messages.extend(decoded(payloads, message)?);
    }
    let history = payloads.decode_history(turn.events().unwrap_or_default().to_vec())?;
    let is_new = is_continued(&history) || history.is_empty();
    let history = if is_new { Vec::new() } else { history };
    let instance = &turn.instance.document;
    let id = &*instance.instance_id;
    let execution_id = instance.current_execution_id + u64::from(is_new && instance.is_created());
    let mut events = Vec::new();
    let mut next = history.last().map_or(1, |event| event.event_id + 1);
    let mut record = |source, kind| {
        events.push(Event::with_event_id(next, id, execution_id, source, kind));
        next += 1;
    };
    let mut metadata = ExecutionMetadata::default();
    if is_new {
        let (name, version) = wanted(turn, &[]);
        metadata.orchestration_name = Some(name.clone());
        metadata.orchestration_version.clone_from(&version);
        record(None, started(&messages, name, version));
    }
    for (source, kind) in arrivals::recorded(&history, execution_id, messages) {
        record(source, kind);
    }
    let details = ErrorDetails::Application {
        kind: AppErrorKind::Cancelled {
            reason: reason.clone(),
        },
        message: String::new(),
        retryable: false,
    };
    metadata.status = Some("Failed".to_owned());
    metadata.output = Some(details.display_message());
    record(None, EventKind::OrchestrationCancelRequested { reason });
    record(None, EventKind::OrchestrationFailed { details });
    let mut result = TurnResult {
        execution_id,
        history_delta: events,
        worker_items: Vec::new(),
        orchestrator_items: Vec::new(),
        metadata,
        cancelled: Vec::new(),
        restored: std::collections::BTreeMap::new(),
    };
    let history = [history, result.history_delta.clone()].concat();
    end_open_work(&history, id, &mut result);
    // Names the parent, and tells it.
    RejectedCommit::of(turn.history.as_ref().ok(), &result).complete(&mut result);
    Ok(Some(result))
}

/// Cancels the activities and the sub-orchestrations that a history waits for.
fn end_open_work(history: &[Event], id: &str, result: &mut TurnResult) {
    for event in open_schedules(history) {
        match &event.kind {
            EventKind::ActivityScheduled { .. } => {
                result.cancelled.push(ScheduledActivityIdentifier {
                    instance: id.to_owned(),
                    execution_id: result.execution_id,
                    activity_id: event.event_id,
                });
            }
            EventKind::SubOrchestrationScheduled { instance, .. } => {
                result.orchestrator_items.push(WorkItem::CancelInstance {
                    instance: build_child_instance_id(id, instance),
                    reason: "parent canceled".to_owned(),
                });
            }
            _ => {}
        }
    }
}

/// Returns a message with decoded payloads; `None` when it cannot be read.
fn decoded(payloads: &Payloads, message: &Message) -> Result<Option<WorkItem>> {
    let mut item = message.content.item().cloned();
    item.iter_mut()
        .try_for_each(|item| payloads.decode_message(item))?;
    Ok(item)
}

/// Returns the first event of an execution that one of these messages starts.
fn started(messages: &[WorkItem], name: String, version: Option<String>) -> EventKind {
    let version = version.unwrap_or_else(|| UNKNOWN_VERSION.to_owned());
    let started = messages.iter().find_map(|message| match message {
        WorkItem::StartOrchestration {
            input,
            parent_instance,
            parent_id,
            parent_execution_id,
            ..
        } => Some(EventKind::OrchestrationStarted {
            name: name.clone(),
            version: version.clone(),
            input: input.clone(),
            parent_instance: parent_instance.clone(),
            parent_id: *parent_id,
            parent_execution_id: *parent_execution_id,
            carry_forward_events: None,
            initial_custom_status: None,
        }),
        WorkItem::ContinueAsNew {
            input,
            parent_instance,
            parent_id,
            parent_execution_id,
            carry_forward_events,
            initial_custom_status,
            ..
        } => Some(EventKind::OrchestrationStarted {
            name: name.clone(),
            version: version.clone(),
            input: input.clone(),
            parent_instance: parent_instance.clone(),
            parent_id: *parent_id,
            parent_execution_id: *parent_execution_id,
            carry_forward_events: Some(carry_forward_events.clone()),
            initial_custom_status: initial_custom_status.clone(),
        }),
        _ => None,
    });
    started.unwrap_or_else(|| EventKind::OrchestrationStarted {
        name,
        version,
        input: String::new(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    })
}

fn is_continued(history: &[Event]) -> bool {
    let last = history.last().map(|event| &event.kind);
    matches!(last, Some(EventKind::OrchestrationContinuedAsNew { .. }))
}
