//! What the runtime made of a turn.

use duroxide::Event;
use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};

/// What the runtime made of a turn.
#[derive(Debug)]
pub(crate) struct TurnResult {
    pub(crate) execution_id: u64,
    pub(crate) history_delta: Vec<Event>,
    pub(crate) worker_items: Vec<WorkItem>,
    pub(crate) orchestrator_items: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}
