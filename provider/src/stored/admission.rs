//! Rejects work items that could never be processed, before they are written: instance ids, session
//! ids and names that are too long, and reserved ids.
//!
//! All other text may hold any character. An item that is queued but does not fit its document
//! would be retried endlessly and block other items.

use cdb_model::DocumentKey;
use cdb_model::limits::MAX_ID_BYTES;
use duroxide::providers::WorkItem;
use duroxide::runtime::limits::MAX_CUSTOM_STATUS_BYTES;

use crate::error::{Error, Result};
use crate::stored::documents::{InstanceKey, SessionKey, header, target_instance};

/// The most bytes of an instance id, as escaped in the ids of the instance's items. The rest of an
/// item id holds the document type, two numbers or the name of a message.
const MAX_INSTANCE_ID_BYTES: usize = MAX_ID_BYTES - 123;

/// The most bytes of a message without its payload, as JSON: the names of orchestrations, activities,
/// events and tags.
const MAX_NAMES_BYTES: usize = 64 * 1024;

/// The prefix of partitions that belong to the container itself: its schema and its members.
const RESERVED: &str = "cdb:";

/// Checks that a work item may be queued.
///
/// # Errors
/// Fails permanently, and names what is too long.
pub(crate) fn check_item(item: &WorkItem) -> Result<()> {
    check_instance_id(target_instance(item))?;
    check_session_id(item)?;
    let bytes = header(item.clone())?.len();
    if bytes <= MAX_NAMES_BYTES {
        return Ok(());
    }
    let most = MAX_NAMES_BYTES;
    Err(Error::Refused(format!(
        "the names in a message (of the instance, the orchestration, the activity, the event) take {bytes} bytes; \
        the limit is {most}; pass large values as input or as data"
    )))
}

/// Checks that the session of an activity can have a document. The worker that takes the activity
/// creates it, long after the commit.
fn check_session_id(item: &WorkItem) -> Result<()> {
    if let WorkItem::ActivityExecute {
        instance,
        session_id: Some(session_id),
        ..
    } = item
    {
        SessionKey::new(&**instance, &**session_id).to_id()?;
    }
    Ok(())
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
    // duroxide's words for the same limit (its tests/custom_status_tests.rs).
    Err(Error::Refused(format!(
        "Custom status size ({bytes} bytes) exceeds limit ({MAX_CUSTOM_STATUS_BYTES} bytes)"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_check_counts_names_and_not_the_payload() {
        let message = |name: usize, payload: usize| WorkItem::QueueMessage {
            instance: "i".to_owned(),
            name: "x".repeat(name),
            data: "x".repeat(payload),
        };
        assert!(check_item(&message(MAX_NAMES_BYTES - 300, 10 * MAX_NAMES_BYTES)).is_ok());
        assert!(check_item(&message(MAX_NAMES_BYTES, 0)).is_err());
    }
}
