//! What is refused before it is written, because it could never be worked on: instance ids and names that are too long,
//! ids that are the container's own.
//!
//! Everything else is data and may hold any character. An item that got past the door and then did not fit its document
//! would be tried again for ever, or make others wait for it.

use cdb_model::DocumentKey;
use cdb_model::limits::MAX_ID_BYTES;
use duroxide::providers::{ProviderError, WorkItem};
use duroxide::runtime::limits::MAX_CUSTOM_STATUS_BYTES;

use crate::documents::{InstanceKey, outline, target_instance};
use crate::error::unreadable;

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
pub(crate) fn check_item(operation: &'static str, item: &WorkItem) -> Result<(), ProviderError> {
    check_instance_id(operation, target_instance(item))?;
    let names = outline(item.clone()).map_err(|error| unreadable(operation, error))?;
    if names.len() <= MAX_NAMES_BYTES {
        return Ok(());
    }
    let (bytes, most) = (names.len(), MAX_NAMES_BYTES);
    Err(ProviderError::permanent(
        operation,
        format!(
            "the names in a message (of the instance, the orchestration, the activity, the event) take {bytes} bytes, \
             {most} is the most; pass what is large as input or as data"
        ),
    ))
}

/// Which instance ids can be used.
///
/// # Errors
/// Permanent, and says why not.
pub(crate) fn check_instance_id(
    operation: &'static str,
    instance_id: &str,
) -> Result<(), ProviderError> {
    check_not_reserved(operation, instance_id)?;
    let id = InstanceKey::new(instance_id).to_id();
    let id = id.map_err(|error| unreadable(operation, error))?;
    if id.as_str().len() <= MAX_INSTANCE_ID_BYTES {
        return Ok(());
    }
    let bytes = id.as_str().len();
    Err(ProviderError::permanent(
        operation,
        format!(
            "the component `instance_id` takes {bytes} bytes in an id, {MAX_INSTANCE_ID_BYTES} is the most, so that all \
             items of the instance keep within the service's {MAX_ID_BYTES}; choose a shorter one"
        ),
    ))
}

/// Whether a partition may be an instance's.
///
/// # Errors
/// Permanent, when it is the container's own.
pub(crate) fn check_not_reserved(
    operation: &'static str,
    instance_id: &str,
) -> Result<(), ProviderError> {
    if !instance_id.starts_with(RESERVED) {
        return Ok(());
    }
    Err(ProviderError::permanent(
        operation,
        format!(
            "instance ids that begin with `{RESERVED}` are the container's own; choose another one"
        ),
    ))
}

/// What an orchestration may say about itself. duroxide fails one that says more before it comes here.
///
/// # Errors
/// Permanent, with size and limit.
pub(crate) fn check_custom_status(
    operation: &'static str,
    status: &str,
) -> Result<(), ProviderError> {
    let bytes = status.len();
    if bytes <= MAX_CUSTOM_STATUS_BYTES {
        return Ok(());
    }
    Err(ProviderError::permanent(
        operation,
        format!("the custom status takes {bytes} bytes, {MAX_CUSTOM_STATUS_BYTES} is the most"),
    ))
}
