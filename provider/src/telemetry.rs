//! Spans and metrics of turns and activities. Names, units and labels: docs/telemetry.md.
//!
//! A span lasts from the fetch of a turn or an activity until its end is stored. The ending call
//! runs inside the span, so the requests of a commit and the deliveries that follow are its
//! children.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide::providers::{OrchestrationItem, WorkItem};
use metrics::{counter, histogram};
use tokio::time::Instant;
use tracing::{Span, field, info_span};

use crate::error::Result;

/// The number of spans from which on each new span removes abandoned spans.
const SWEEP_THRESHOLD: usize = 4096;
const MAX_AGE: Duration = Duration::from_secs(3600);

/// The spans of running turns and activities, by lock token.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    turns: Running,
    activities: Running,
}

#[derive(Debug, Default)]
struct Running(Mutex<HashMap<String, (Instant, Span)>>);

impl Running {
    fn state(&self) -> MutexGuard<'_, HashMap<String, (Instant, Span)>> {
        // The map is valid between any two statements, so a panic elsewhere does not corrupt it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, token: &str, span: Span) {
        let mut state = self.state();
        if state.len() >= SWEEP_THRESHOLD {
            state.retain(|_, (begun, _)| begun.elapsed() < MAX_AGE);
        }
        state.insert(token.to_owned(), (Instant::now(), span));
    }

    fn span(&self, token: &str) -> Span {
        let state = self.state();
        state
            .get(token)
            .map_or_else(Span::none, |(_, span)| span.clone())
    }

    fn end(&self, token: &str, outcome: &'static str) -> Option<Duration> {
        let (begun, span) = self.state().remove(token)?;
        span.record("cdb.outcome", outcome);
        Some(begun.elapsed())
    }
}

impl Telemetry {
    /// Starts the span of a fetched turn.
    pub(crate) fn turn_began(&self, item: &OrchestrationItem, token: &str, attempt: u32) {
        let span = info_span!(
            "turn",
            otel.name = format!("turn {}", item.orchestration_name),
            duroxide.instance.id = item.instance,
            duroxide.execution.id = item.execution_id,
            duroxide.orchestration.name = item.orchestration_name,
            duroxide.attempt = attempt,
            cdb.messages = item.messages.len(),
            cdb.outcome = field::Empty,
        );
        self.turns.begin(token, span);
    }

    /// Returns the span of a turn; a disabled span when this process does not know the turn.
    pub(crate) fn turn(&self, token: &str) -> Span {
        self.turns.span(token)
    }

    /// Ends the span of a turn, unless its commit can be retried.
    pub(crate) fn turn_committed(&self, token: &str, result: &Result<()>) {
        if let Some(outcome) = outcome(result, "committed") {
            self.turn_ended(token, outcome);
        }
    }

    /// Ends the span of an abandoned turn.
    pub(crate) fn turn_abandoned(&self, token: &str) {
        self.turn_ended(token, "abandoned");
    }

    fn turn_ended(&self, token: &str, outcome: &'static str) {
        if let Some(duration) = self.turns.end(token, outcome) {
            counter!("cdb.provider.turns", "outcome" => outcome).increment(1);
            histogram!("cdb.provider.turn.duration", "outcome" => outcome)
                .record(duration.as_secs_f64());
        }
    }

    /// Starts the span of a fetched activity.
    pub(crate) fn activity_began(&self, item: &WorkItem, token: &str, attempt: u32) {
        let WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            name,
            ..
        } = item
        else {
            return;
        };
        let span = info_span!(
            "activity",
            otel.name = format!("activity {name}"),
            duroxide.instance.id = instance,
            duroxide.execution.id = execution_id,
            duroxide.activity.name = name,
            duroxide.activity.id = id,
            duroxide.attempt = attempt,
            cdb.outcome = field::Empty,
        );
        self.activities.begin(token, span);
    }

    /// Returns the span of an activity; a disabled span when this process does not know the
    /// activity.
    pub(crate) fn activity(&self, token: &str) -> Span {
        self.activities.span(token)
    }

    /// Ends the span of an activity, unless its acknowledgement can be retried.
    pub(crate) fn activity_stored(&self, token: &str, result: &Result<()>) {
        if let Some(outcome) = outcome(result, "completed") {
            self.activity_ended(token, outcome);
        }
    }

    /// Ends the span of an abandoned activity.
    pub(crate) fn activity_abandoned(&self, token: &str) {
        self.activity_ended(token, "abandoned");
    }

    fn activity_ended(&self, token: &str, outcome: &'static str) {
        if let Some(duration) = self.activities.end(token, outcome) {
            counter!("cdb.provider.activities", "outcome" => outcome).increment(1);
            histogram!("cdb.provider.activity.duration", "outcome" => outcome)
                .record(duration.as_secs_f64());
        }
    }
}

/// Returns the outcome to record; `None` when the runtime will retry with the same token.
fn outcome(result: &Result<()>, done: &'static str) -> Option<&'static str> {
    match result {
        Ok(()) => Some(done),
        Err(error) if error.is_retryable() => None,
        Err(_) => Some("lost"),
    }
}
