//! Reads recordings from the store.

use super::recording::Recording;
use crate::error::Result;
use crate::stored::{Store, history, kv};

/// Reads the current execution of an instance.
pub(crate) async fn recording(store: &Store, instance_id: &str) -> Result<Option<Recording>> {
    let container = &store.container;
    let Some(stored) = history::read_instance(container, instance_id).await? else {
        return Ok(None);
    };
    let execution = stored.document.current_execution_id;
    let (events, mut values) = futures::try_join!(
        history::read_execution(container, instance_id, execution),
        kv::read_snapshot(container, instance_id),
    )?;
    if events.is_empty() {
        return Ok(None);
    }
    // A tool without the key must not compare encoded inputs with those of the code.
    let payloads = store.payloads.strict();
    let events = payloads.decode_history(events)?;
    payloads.decode_entries(&mut values)?;
    let recording = Recording::new(instance_id, execution, events);
    Ok(Some(recording.with_key_values(values)))
}
