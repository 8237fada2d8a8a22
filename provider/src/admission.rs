//! Rejects work items that could never be processed, before they are written: instance ids and
//! names that are too long, and reserved ids.
//!
//! All other text may hold any character. An item that is queued but does not fit its document
//! would be retried endlessly and block other items.

use std::io;

use cdb_model::DocumentKey;
use cdb_model::limits::MAX_ID_BYTES;
use duroxide::providers::WorkItem;
use duroxide::runtime::limits::MAX_CUSTOM_STATUS_BYTES;

use crate::documents::{InstanceKey, target_instance};
use crate::error::{Error, Result};

/// The most bytes of an instance id, as escaped in the ids of the instance's items. The rest of an
/// item id holds the document type, two numbers or the name of a message.
const MAX_INSTANCE_ID_BYTES: usize = MAX_ID_BYTES - 123;

/// The most bytes of a message without its payload: the names of orchestrations, activities, events
/// and tags.
const MAX_NAMES_BYTES: usize = 64 * 1024;

/// The prefix of partitions that belong to the container itself: its schema and its members.
const RESERVED: &str = "cdb:";

/// Checks that a work item may be queued.
///
/// # Errors
/// Fails permanently, and names what is too long.
pub(crate) fn check_item(item: &WorkItem) -> Result<()> {
    check_instance_id(target_instance(item))?;
    let bytes = names_bytes(item)?;
    if bytes <= MAX_NAMES_BYTES {
        return Ok(());
    }
    let most = MAX_NAMES_BYTES;
    Err(Error::Refused(format!(
        "the names in a message (of the instance, the orchestration, the activity, the event) take {bytes} bytes; \
        the limit is {most}; pass large values as input or as data"
    )))
}

/// Returns the bytes of the names in a message, as JSON. Does not serialize the payload, which may
/// take megabytes.
fn names_bytes(item: &WorkItem) -> serde_json::Result<usize> {
    let mut written = Length(0);
    serde_json::to_writer(&mut written, &names(item))?;
    Ok(written.0)
}

/// A writer that only counts bytes.
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

/// Returns the strings of a message that are not payload: the strings that
/// [`header`](crate::documents::header) keeps.
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

/// Checks that an instance id can be used.
///
/// # Errors
/// Fails permanently, and says why.
pub(crate) fn check_instance_id(instance_id: &str) -> Result<()> {
    check_not_reserved(instance_id)?;
    let id = InstanceKey::new(instance_id).to_id()?;
    if id.as_str().len() <= MAX_INSTANCE_ID_BYTES {
        return Ok(());
    }
    let bytes = id.as_str().len();
    Err(Error::Refused(format!(
        "the component `instance_id` takes {bytes} bytes in an id; the limit is {MAX_INSTANCE_ID_BYTES}, so that all \
        items of the instance keep within the service's {MAX_ID_BYTES}; choose a shorter instance id"
    )))
}

/// Checks that a partition may belong to an instance.
///
/// # Errors
/// Fails permanently when the partition belongs to the container itself.
pub(crate) fn check_not_reserved(instance_id: &str) -> Result<()> {
    if !instance_id.starts_with(RESERVED) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "instance ids that begin with `{RESERVED}` are reserved for the container; choose another instance id"
    )))
}

/// Checks the size of a custom status. duroxide fails an orchestration with a larger one before it
/// commits.
///
/// # Errors
/// Fails permanently, with size and limit.
pub(crate) fn check_custom_status(status: &str) -> Result<()> {
    let bytes = status.len();
    if bytes <= MAX_CUSTOM_STATUS_BYTES {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the custom status takes {bytes} bytes; the limit is {MAX_CUSTOM_STATUS_BYTES}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::header;

    /// Bytes of a header besides its names: field names and numbers.
    const FIELDS_BYTES: usize = 300;

    /// Asserts that the checked length covers all that a header keeps of a message, and nothing of
    /// its payload.
    fn check(item: WorkItem) {
        let length = names_bytes(&item).unwrap();
        assert!(
            length > 6_000,
            "a name is not counted: {length}, {item:.80?}"
        );
        let header_text = header(item).unwrap();
        let missed = header_text.len().saturating_sub(length);
        assert!(missed < FIELDS_BYTES, "{missed} bytes: {header_text:.200}");
        assert!(
            length < header_text.len() + 20,
            "{length} bytes: {header_text:.200}"
        );
    }

    #[test]
    fn the_size_check_counts_names_and_not_the_payload() {
        // Each takes two bytes of JSON.
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
