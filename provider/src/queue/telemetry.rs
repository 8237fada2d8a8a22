//! Spans and metrics of turns and activities. Names, units and labels: docs/telemetry.md.
//!
//! A span lasts from the fetch of a turn or an activity until its end is stored. The ending call
//! runs inside the span, so the requests of a commit and the deliveries that follow are its
//! children.

use std::collections::HashMap;

use duroxide::providers::{OrchestrationItem, WorkItem};
use metrics::{counter, histogram};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{Span, field, info_span};

use crate::error::Result;
use crate::timing::SPAN_AGE;

/// The number of spans from which on each new span removes abandoned spans.
const SWEEP_THRESHOLD: usize = 4096;

/// The spans of turns and activities.
#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) turns: Spans,
    pub(crate) activities: Spans,
}

/// The spans of running turns or activities, by lock token, and the names of their metrics.
#[derive(Debug)]
pub(crate) struct Spans {
    count: &'static str,
    duration: &'static str,
    running: Mutex<HashMap<String, (Instant, Span)>>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            turns: Spans::new("cdb.provider.turns", "cdb.provider.turn.duration"),
            activities: Spans::new("cdb.provider.activities", "cdb.provider.activity.duration"),
        }
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
            cdb.request_units = field::Empty,
        );
        self.turns.begin(token, span);
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
}

impl Spans {
    fn new(count: &'static str, duration: &'static str) -> Self {
        Self {
            count,
            duration,
            running: Mutex::default(),
        }
    }

    fn begin(&self, token: &str, span: Span) {
        let mut running = self.running.lock();
        if running.len() >= SWEEP_THRESHOLD {
            running.retain(|_, (begun, _)| begun.elapsed() < SPAN_AGE);
        }
        running.insert(token.to_owned(), (Instant::now(), span));
    }

    /// Returns the span of this token; a disabled span when this process does not know the token.
    pub(crate) fn span(&self, token: &str) -> Span {
        let running = self.running.lock();
        let known = running.get(token);
        known.map_or_else(Span::none, |(_, span)| span.clone())
    }

    /// Ends a span with the outcome `done`, unless the runtime will retry with the same token.
    pub(crate) fn stored(&self, token: &str, result: &Result<()>, done: &'static str) {
        match result {
            Ok(()) => self.end(token, done),
            Err(error) if error.is_retryable() => {}
            Err(_) => self.end(token, "lost"),
        }
    }

    /// Ends a span with this outcome.
    pub(crate) fn end(&self, token: &str, outcome: &'static str) {
        if let Some((begun, span)) = self.running.lock().remove(token) {
            span.record("cdb.outcome", outcome);
            counter!(self.count, "outcome" => outcome).increment(1);
            histogram!(self.duration, "outcome" => outcome).record(begun.elapsed().as_secs_f64());
        }
    }
}
