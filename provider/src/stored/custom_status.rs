//! Custom status: the text that an orchestration publishes while it runs.

use cdb_client::ContainerClient;
use duroxide::{Event, EventKind};

use super::documents::Durable;
use super::history;
use crate::error::Result;
use crate::stored::documents::Status;

/// Returns the last change of the custom status in a turn's events: `None` without a change,
/// `Some(None)` when it is cleared.
#[expect(clippy::option_option, reason = "no change, cleared, set")]
pub(crate) fn change_in(events: &[Event]) -> Option<Option<String>> {
    events.iter().rev().find_map(|event| match &event.kind {
        EventKind::CustomStatusUpdated { status } => Some(status.clone()),
        _ => None,
    })
}

/// Implements `Provider::get_custom_status`.
pub(crate) async fn read(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    last_seen_version: u64,
) -> Result<Option<(Option<String>, u64)>> {
    let found = history::read_instance(container, instance_id).await?;
    Ok(found
        .map(|stored| stored.document)
        .filter(|instance| {
            instance.status != Status::Pending && instance.custom_status_version > last_seen_version
        })
        .map(|instance| (instance.custom_status, instance.custom_status_version)))
}
