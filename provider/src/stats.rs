//! Statistics of an instance: events, bytes, keys.

use cdb_client::ContainerClient;
use duroxide::{EventKind, SystemStats};

use crate::documents::{Durable, Status};
use crate::error::Result;
use crate::{history, kv};

/// Implements `Provider::get_instance_stats`.
pub(crate) async fn read(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<Option<SystemStats>> {
    let Some(stored) = history::read_instance(container, instance_id).await? else {
        return Ok(None);
    };
    let instance = stored.document;
    if instance.status == Status::Pending {
        return Ok(None);
    }
    let execution_id = instance.current_execution_id;
    let segments = history::read_segments(container, instance_id, execution_id)
        .await?
        .whole()?;
    let first = segments.first().cloned().into_iter().collect();
    let carried = history::unpack(container, first)
        .await?
        .iter()
        .find_map(|event| match &event.kind {
            EventKind::OrchestrationStarted {
                carry_forward_events: Some(carried),
                ..
            } => Some(carried.len()),
            _ => None,
        })
        .unwrap_or_default();
    let values = kv::read_all(container, instance_id).await?;
    Ok(Some(SystemStats {
        history_event_count: segments.iter().map(|segment| segment.event_count).sum(),
        history_size_bytes: segments
            .iter()
            .map(|segment| segment.event_data.bytes() as u64)
            .sum(),
        queue_pending_count: carried as u64,
        kv_user_key_count: values.len() as u64,
        kv_total_value_bytes: values.values().map(|value| value.len() as u64).sum(),
    }))
}
