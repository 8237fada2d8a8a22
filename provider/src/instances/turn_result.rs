//! The result of a turn.

use duroxide::Event;
use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};

/// The result of a turn, as the runtime acknowledges it.
#[derive(Debug)]
pub(crate) struct TurnResult {
    pub(crate) execution_id: u64,
    pub(crate) history_delta: Vec<Event>,
    pub(crate) worker_items: Vec<WorkItem>,
    pub(crate) orchestrator_items: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}
