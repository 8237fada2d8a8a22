//! Runs the code of an orchestration on the first events of a recording.

use std::sync::Arc;

use duroxide::runtime::OrchestrationHandler;
use duroxide::runtime::replay_engine::{ReplayEngine, TurnResult};
use duroxide::{
    AppErrorKind, ConfigErrorKind, ErrorDetails, Event, EventKind, OrchestrationRegistry,
};
use semver::Version;

use super::difference::{DifferenceKind, ReplayDifference};
use super::recording::Recording;

/// The name of the worker, which orchestrations can see and must not depend on.
const WORKER: &str = "replay";

/// The code of a recording and its input.
pub(super) struct Execution<'a> {
    recording: &'a Recording,
    events: &'a [Event],
    handler: Arc<dyn OrchestrationHandler>,
    name: &'a str,
    version: &'a str,
    input: &'a str,
}

/// The result of a run.
pub(super) struct Run {
    pub(super) outcome: Outcome,
    /// What the code decided after the last event.
    pub(super) decided: Vec<Event>,
}

pub(super) enum Outcome {
    /// The code waits for the next event.
    Waits,
    /// The code has ended, as this event records.
    Ends(EventKind),
    /// duroxide has found a difference, and says which.
    Differs(String),
}

impl<'a> Execution<'a> {
    /// # Errors
    /// When the events do not begin with a start, or the orchestration is not registered.
    pub(super) fn of(
        orchestrations: &OrchestrationRegistry,
        recording: &'a Recording,
        events: &'a [Event],
    ) -> Result<Self, ReplayDifference> {
        let Some(EventKind::OrchestrationStarted {
            name,
            version,
            input,
            ..
        }) = events.first().map(|event| &event.kind)
        else {
            let text = "the history does not begin with a start".to_owned();
            return Err(recording.difference(DifferenceKind::Unreadable, None, text));
        };
        // Asking for a missing handler would log a warning per instance.
        let known = orchestrations.list_versions(name);
        let found = Version::parse(version).ok();
        let found = found.filter(|version| known.contains(version));
        let handler =
            found.and_then(|version| orchestrations.resolve_handler_exact(name, &version));
        let Some(handler) = handler else {
            let known: Vec<String> = known.iter().map(Version::to_string).collect();
            let text = match &*known {
                [] => format!("orchestration `{name}` is not registered"),
                known => format!(
                    "version {version} of orchestration `{name}` is not registered; registered: {}",
                    known.join(", ")
                ),
            };
            return Err(recording.difference(DifferenceKind::NotRegistered, None, text));
        };
        Ok(Self {
            recording,
            events,
            handler,
            name,
            version,
            input,
        })
    }

    /// Runs the code on the first `length` events.
    pub(super) fn run(&self, length: usize) -> Run {
        let recording = self.recording;
        let events = self.events[..length].to_vec();
        let mut engine = ReplayEngine::new(recording.instance.clone(), recording.execution, events)
            .with_kv_snapshot(recording.key_values.clone());
        let result = engine.execute_orchestration(
            Arc::clone(&self.handler),
            self.input.to_owned(),
            self.name.to_owned(),
            self.version.to_owned(),
            WORKER,
        );
        Run {
            outcome: outcome(result),
            decided: engine.history_delta().to_vec(),
        }
    }
}

fn outcome(result: TurnResult) -> Outcome {
    match result {
        TurnResult::Continue => Outcome::Waits,
        TurnResult::Completed(output) => {
            Outcome::Ends(EventKind::OrchestrationCompleted { output })
        }
        TurnResult::ContinueAsNew { input, .. } => {
            Outcome::Ends(EventKind::OrchestrationContinuedAsNew { input })
        }
        TurnResult::Cancelled(reason) => Outcome::Ends(EventKind::OrchestrationFailed {
            details: ErrorDetails::Application {
                kind: AppErrorKind::Cancelled { reason },
                message: String::new(),
                retryable: false,
            },
        }),
        TurnResult::Failed(ErrorDetails::Configuration {
            kind: ConfigErrorKind::Nondeterminism,
            message,
            ..
        }) => Outcome::Differs(message.unwrap_or_default()),
        TurnResult::Failed(details) => Outcome::Ends(EventKind::OrchestrationFailed { details }),
    }
}
