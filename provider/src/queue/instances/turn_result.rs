//! The result of a turn.

use std::collections::BTreeMap;

use duroxide::Event;
use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};

use crate::stored::documents::KeyValue;

/// The result of a turn, as the runtime acknowledges it.
#[derive(Debug)]
pub(crate) struct TurnResult {
    pub(crate) execution_id: u64,
    pub(crate) history_delta: Vec<Event>,
    pub(crate) worker_items: Vec<WorkItem>,
    pub(crate) orchestrator_items: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
    /// The key-value store as a rewound execution found it: the values of the keys that it had
    /// changed. Empty for a turn of a runtime.
    pub(crate) restored: BTreeMap<String, Option<KeyValue>>,
}
