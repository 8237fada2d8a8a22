//! What a running instance waits for, in a list.

use cdb_model::Timestamp;
use serde::Serialize;

use super::super::json;

/// What a running instance waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WaitsFor {
    /// The kind.
    pub kind: WaitKind,
    /// The name of the event, activity or sub-orchestration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The key of the limit that the activity waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The time at which a timer fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// How many other events, timers, activities and sub-orchestrations are open.
    #[serde(skip_serializing_if = "json::is_zero")]
    pub others: usize,
}

/// The kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum WaitKind {
    /// An operator has paused the instance.
    Paused,
    /// The code of the runtimes cannot execute the next turn.
    Held,
    /// A runtime executes a turn.
    Busy,
    /// A message has been due for more than 5 s, and no runtime fetches it: none runs, or all are busy.
    Runtime,
    /// An event.
    Event,
    /// A queued event.
    Queue,
    /// A timer.
    Timer,
    /// An activity.
    Activity,
    /// An activity has been due for more than 5 s, and no worker fetches it.
    Worker,
    /// All due activities wait for limits.
    Limit,
    /// A sub-orchestration.
    SubOrchestration,
}

impl WaitsFor {
    pub(super) fn of(kind: WaitKind) -> Self {
        Self {
            kind,
            name: None,
            limit: None,
            due_at: None,
            others: 0,
        }
    }
}
