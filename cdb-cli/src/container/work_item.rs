//! Short descriptions of queued messages and stored texts.

use cdb_provider::documents::Text;
use duroxide::providers::WorkItem;

/// Returns a stored text, or the size of a text that is stored in parts.
pub(crate) fn shown(text: &Text) -> String {
    match text {
        Text::Inline(text) => text.clone(),
        Text::Damaged(reason) => format!("({reason})"),
        Text::Chunked(chunked) => format!("({} bytes, stored in parts)", chunked.bytes),
    }
}

/// Describes a message from its stored text: `StartOrchestration Order`.
pub(crate) fn describe(stored: &str, decode: impl FnOnce(WorkItem) -> WorkItem) -> String {
    if stored.is_empty() {
        return "consumed message, kept for deduplication".to_owned();
    }
    let Ok(item) = serde_json::from_str::<WorkItem>(stored) else {
        return "unreadable message".to_owned();
    };
    match decode(item) {
        WorkItem::StartOrchestration { orchestration, .. } => {
            format!("StartOrchestration {orchestration}")
        }
        WorkItem::ActivityExecute { name, .. } => format!("ActivityExecute {name}"),
        WorkItem::ActivityCompleted { id, .. } => format!("ActivityCompleted #{id}"),
        WorkItem::ActivityFailed { id, .. } => format!("ActivityFailed #{id}"),
        WorkItem::TimerFired { id, .. } => format!("TimerFired #{id}"),
        WorkItem::ExternalRaised { name, .. } => format!("ExternalRaised {name}"),
        WorkItem::SubOrchCompleted { parent_id, .. } => format!("SubOrchCompleted #{parent_id}"),
        WorkItem::SubOrchFailed { parent_id, .. } => format!("SubOrchFailed #{parent_id}"),
        WorkItem::CancelInstance { reason, .. } => format!("CancelInstance: {reason}"),
        WorkItem::ContinueAsNew { orchestration, .. } => format!("ContinueAsNew {orchestration}"),
        WorkItem::QueueMessage { name, .. } => format!("QueueMessage {name}"),
    }
}

/// A message that starts an instance.
pub(crate) struct Start {
    pub instance: String,
    pub orchestration: String,
    pub version: Option<String>,
}

impl Start {
    /// Reads a message; `None` for any other message.
    pub(crate) fn of(stored: &str) -> Option<Self> {
        match serde_json::from_str(stored).ok()? {
            WorkItem::StartOrchestration {
                instance,
                orchestration,
                version,
                ..
            } => Some(Self {
                instance,
                orchestration,
                version,
            }),
            _ => None,
        }
    }

    /// Returns the name and version that a runtime must know.
    pub(crate) fn required_type(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.orchestration),
            None => self.orchestration.clone(),
        }
    }
}
