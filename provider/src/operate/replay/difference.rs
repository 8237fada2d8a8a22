//! A difference between a recording and the code, and which ends of executions are the same.

use std::fmt;

use duroxide::{AppErrorKind, ErrorDetails, EventKind};

/// The first difference between a recorded execution and the code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayDifference {
    /// The instance.
    pub instance: String,
    /// The execution.
    pub execution: u64,
    /// The recorded event at which the code differs. `None` when the code cannot be run.
    pub event: Option<u64>,
    /// What differs.
    pub kind: DifferenceKind,
    /// What is recorded, and what the code does.
    pub text: String,
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// The code makes another decision, or none, or one more. A running instance would fail, or
    /// would do something else than an instance of the old code.
    Decision,
    /// The code ends where the recorded execution goes on, or the other way round, or with another
    /// result.
    End,
    /// The orchestration or its version is not registered. The instance would wait until a runtime
    /// has it.
    NotRegistered,
    /// The history cannot be replayed.
    Unreadable,
}

impl fmt::Display for ReplayDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "instance `{}`, execution {}",
            self.instance, self.execution
        )?;
        if let Some(event) = self.event {
            write!(f, ", event {event}")?;
        }
        write!(f, ": {}", self.text)
    }
}

impl std::error::Error for ReplayDifference {}

/// Whether the code decided this end. Other failures came from outside: a cancellation, a poisoned
/// message, a damaged history.
pub(super) fn is_of_code(end: &EventKind) -> bool {
    match end {
        EventKind::OrchestrationFailed { details } => matches!(
            details,
            ErrorDetails::Application {
                kind: AppErrorKind::OrchestrationFailed | AppErrorKind::Panicked,
                ..
            }
        ),
        _ => true,
    }
}

/// Whether the code ends like the recorded execution.
pub(super) fn same_end(recorded: &EventKind, code: &EventKind) -> bool {
    if !is_of_code(recorded) {
        return true;
    }
    match (recorded, code) {
        (
            EventKind::OrchestrationCompleted { output },
            EventKind::OrchestrationCompleted { output: code },
        ) => output == code,
        (
            EventKind::OrchestrationContinuedAsNew { input },
            EventKind::OrchestrationContinuedAsNew { input: code },
        ) => input == code,
        (
            EventKind::OrchestrationFailed { details },
            EventKind::OrchestrationFailed { details: code },
        ) => details.display_message() == code.display_message(),
        _ => false,
    }
}
