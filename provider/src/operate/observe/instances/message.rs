//! Queued messages in words.

use duroxide::providers::WorkItem;

use crate::stored::payload::Payloads;

/// Describes a message for an orchestration from its stored text, without its payload: `StartOrchestration Order`.
/// `decode` decodes its payloads, such as [`decode_message`](crate::CosmosDBProvider::decode_message).
pub fn describe_message(stored: &str, decode: impl FnOnce(WorkItem) -> WorkItem) -> String {
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

/// As [`describe_message`], with payloads that are decoded as far as the keys are known.
pub(super) fn describe(payloads: &Payloads, stored: &str) -> String {
    describe_message(stored, |message| payloads.readable_message(message))
}
