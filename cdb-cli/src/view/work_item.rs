//! A queued message in a few words.

use cdb_provider::documents::Text;
use duroxide::providers::WorkItem;

/// A stored text; of one that is too large for its document, how large it is.
pub(crate) fn shown(text: &Text) -> String {
    match text {
        Text::Inline(text) => text.clone(),
        Text::Damaged(reason) => format!("({reason})"),
        Text::Chunked(chunked) => format!("({} bytes, stored in parts)", chunked.bytes),
    }
}

/// What a message is, from its stored text: `StartOrchestration Order`. Text that is no message says so.
pub(crate) fn describe(stored: &str) -> String {
    if stored.is_empty() {
        return "consumed; its id is remembered".to_owned();
    }
    let Ok(item) = serde_json::from_str::<WorkItem>(stored) else {
        return "not readable".to_owned();
    };
    match item {
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
