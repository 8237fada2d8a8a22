//! What is refused before it is written, because it could never be worked on: instance ids and names that are too long,
//! ids that are the container's own.
//!
//! Everything else is data and may hold any character. An item that got past the door and then did not fit its document
//! would be tried again for ever, or make others wait for it.

use std::io;

use cdb_model::DocumentKey;
use cdb_model::limits::MAX_ID_BYTES;
use duroxide::providers::WorkItem;
use duroxide::runtime::limits::MAX_CUSTOM_STATUS_BYTES;

use crate::documents::{InstanceKey, target_instance};
use crate::error::{Error, Result};

/// Most bytes that an instance id may take within the ids of its items, escaped as it is there. What is left is for what
/// else stands in them: the type, two numbers or the name of a message.
const MAX_INSTANCE_ID_BYTES: usize = MAX_ID_BYTES - 123;

/// Most bytes of a message without its payload: the names in it, of orchestrations, activities, events, tags.
const MAX_NAMES_BYTES: usize = 64 * 1024;

/// Partitions whose names begin like this are the container's own: its form, its members.
const RESERVED: &str = "cdb:";

/// What may be queued.
///
/// # Errors
/// Permanent, and names what is too long.
pub(crate) fn check_item(item: &WorkItem) -> Result<()> {
    check_instance_id(target_instance(item))?;
    let bytes = names_bytes(item)?;
    if bytes <= MAX_NAMES_BYTES {
        return Ok(());
    }
    let most = MAX_NAMES_BYTES;
    Err(Error::Refused(format!(
        "the names in a message (of the instance, the orchestration, the activity, the event) take {bytes} bytes, \
        {most} is the most; pass what is large as input or as data"
    )))
}

/// Bytes of the names in a message, as JSON. Its payload, which may take megabytes, is neither copied nor written.
fn names_bytes(item: &WorkItem) -> serde_json::Result<usize> {
    let mut written = Length(0);
    serde_json::to_writer(&mut written, &names(item))?;
    Ok(written.0)
}

/// How much was written, of which nothing is kept.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The strings of a message that are no payload: what [`outline`](crate::documents::header) keeps of it.
fn names(item: &WorkItem) -> [Option<&str>; 4] {
    match item {
        WorkItem::StartOrchestration {
            instance,
            orchestration,
            version,
            parent_instance,
            ..
        }
        | WorkItem::ContinueAsNew {
            instance,
            orchestration,
            version,
            parent_instance,
            ..
        } => [
            Some(instance),
            Some(orchestration),
            version.as_deref(),
            parent_instance.as_deref(),
        ],
        WorkItem::ActivityExecute {
            instance,
            name,
            session_id,
            tag,
            ..
        } => [
            Some(instance),
            Some(name),
            session_id.as_deref(),
            tag.as_deref(),
        ],
        WorkItem::ExternalRaised { instance, name, .. }
        | WorkItem::QueueMessage { instance, name, .. } => [Some(instance), Some(name), None, None],
        WorkItem::ActivityCompleted { .. }
        | WorkItem::ActivityFailed { .. }
        | WorkItem::TimerFired { .. }
        | WorkItem::SubOrchCompleted { .. }
        | WorkItem::SubOrchFailed { .. }
        | WorkItem::CancelInstance { .. } => [Some(target_instance(item)), None, None, None],
    }
}

/// Which instance ids can be used.
///
/// # Errors
/// Permanent, and says why not.
pub(crate) fn check_instance_id(instance_id: &str) -> Result<()> {
    check_not_reserved(instance_id)?;
    let id = InstanceKey::new(instance_id).to_id()?;
    if id.as_str().len() <= MAX_INSTANCE_ID_BYTES {
        return Ok(());
    }
    let bytes = id.as_str().len();
    Err(Error::Refused(format!(
        "the component `instance_id` takes {bytes} bytes in an id, {MAX_INSTANCE_ID_BYTES} is the most, so that all \
        items of the instance keep within the service's {MAX_ID_BYTES}; choose a shorter one"
    )))
}

/// Whether a partition may be an instance's.
///
/// # Errors
/// Permanent, when it is the container's own.
pub(crate) fn check_not_reserved(instance_id: &str) -> Result<()> {
    if !instance_id.starts_with(RESERVED) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "instance ids that begin with `{RESERVED}` are the container's own; choose another one"
    )))
}

/// What an orchestration may say about itself. duroxide fails one that says more before it comes here.
///
/// # Errors
/// Permanent, with size and limit.
pub(crate) fn check_custom_status(status: &str) -> Result<()> {
    let bytes = status.len();
    if bytes <= MAX_CUSTOM_STATUS_BYTES {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the custom status takes {bytes} bytes, {MAX_CUSTOM_STATUS_BYTES} is the most"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::header;

    /// Bytes of an outline besides its names: what its fields are called, and numbers.
    const FIELDS_BYTES: usize = 300;

    /// All that an outline keeps of a message is weighed, and nothing of its payload.
    fn check(item: WorkItem) {
        let weight = names_bytes(&item).unwrap();
        assert!(
            weight > 6_000,
            "a name is not weighed: {weight}, {item:.80?}"
        );
        let outline = header(item).unwrap();
        let missed = outline.len().saturating_sub(weight);
        assert!(missed < FIELDS_BYTES, "{missed} bytes: {outline:.200}");
        assert!(
            weight < outline.len() + 20,
            "{weight} bytes: {outline:.200}"
        );
    }

    #[test]
    fn the_names_in_a_message_are_weighed_and_not_its_payload() {
        // Two bytes of JSON each.
        let name = || "\n".repeat(3_500);
        let payload = || "x".repeat(100_000);
        check(WorkItem::StartOrchestration {
            instance: name(),
            orchestration: name(),
            input: payload(),
            version: Some(name()),
            parent_instance: Some(name()),
            parent_id: Some(1),
            parent_execution_id: Some(1),
            execution_id: 1,
        });
        check(WorkItem::ActivityExecute {
            instance: name(),
            execution_id: 1,
            id: 2,
            name: name(),
            input: payload(),
            session_id: Some(name()),
            tag: Some(name()),
        });
        check(WorkItem::ContinueAsNew {
            instance: name(),
            orchestration: name(),
            input: payload(),
            version: Some(name()),
            parent_instance: Some(name()),
            parent_id: Some(1),
            parent_execution_id: Some(1),
            carry_forward_events: vec![(payload(), payload())],
            initial_custom_status: Some(payload()),
        });
        check(WorkItem::QueueMessage {
            instance: name(),
            name: name(),
            data: payload(),
        });
        check(WorkItem::SubOrchCompleted {
            parent_instance: name(),
            parent_execution_id: 1,
            parent_id: 2,
            result: payload(),
        });
        check(WorkItem::CancelInstance {
            instance: name(),
            reason: payload(),
        });
    }
}
