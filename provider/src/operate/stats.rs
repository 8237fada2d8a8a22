//! Statistics of an instance: events, bytes, keys.

use cdb_client::ContainerClient;
use duroxide::{EventKind, SystemStats};

use crate::error::Result;
use crate::stored::documents::{Durable, HistorySegment, Status};
use crate::stored::{Store, history, kv};

/// Implements `Provider::get_instance_stats`.
pub(crate) async fn read(store: &Store, instance_id: &str) -> Result<Option<SystemStats>> {
    let container = &store.container;
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
    let carried = carried_forward(container, segments.first()).await?;
    let mut values = kv::read_all(container, instance_id).await?;
    store.payloads.decode_all(values.values_mut())?;
    Ok(Some(SystemStats {
        history_event_count: segments.iter().map(|segment| segment.event_count).sum(),
        history_size_bytes: segments
            .iter()
            .map(|segment| segment.event_data.bytes() as u64)
            .sum(),
        queue_pending_count: carried,
        kv_user_key_count: values.len() as u64,
        kv_total_value_bytes: values.values().map(|value| value.len() as u64).sum(),
    }))
}

/// Returns how many queued events the previous execution has passed to the one that begins with
/// this segment.
async fn carried_forward(
    container: &ContainerClient<Durable>,
    first: Option<&HistorySegment>,
) -> Result<u64> {
    let first = first.cloned().into_iter().collect();
    let events = history::unpack(container, first).await?;
    let carried = events.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted {
            carry_forward_events: Some(carried),
            ..
        } => Some(carried.len() as u64),
        _ => None,
    });
    Ok(carried.unwrap_or_default())
}
