//! Reads the key-value store for clients.

use std::collections::HashMap;

use cdb_client::ContainerClient;
use cdb_model::{Filter, Query};
use duroxide::providers::KvEntry;

use super::state::KvState;
use crate::error::Result;
use crate::stored::documents::{
    Durable, KeyValue, KeyValueDelta, KeyValueDeltaKey, KeyValueKey, KeyValuePack, KeyValuePackKey,
};

/// Implements `Provider::get_kv_value`.
pub(crate) async fn read_value(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    key: &str,
) -> Result<Option<String>> {
    let pack = KeyValuePackKey::new(instance_id);
    let delta = KeyValueDeltaKey::new(instance_id, key);
    let (pack, delta) = futures::try_join!(container.read(&pack), container.read(&delta))?;
    if pack.is_some() {
        return Ok(read_all(container, instance_id).await?.remove(key));
    }
    if let Some(delta) = delta {
        return Ok(delta.document.value);
    }
    let stored = container.read(&KeyValueKey::new(instance_id, key)).await?;
    Ok(stored.map(|stored| stored.document.value))
}

/// Implements `Provider::get_kv_all_values`.
pub(crate) async fn read_all(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<HashMap<String, String>> {
    Ok(load(container, instance_id).await?.visible())
}

/// Reads the values that a turn of the instance starts with.
pub(crate) async fn read_snapshot(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<HashMap<String, KvEntry>> {
    Ok(load(container, instance_id).await?.snapshot())
}

/// Reads all key-value documents of an instance.
async fn load(container: &ContainerClient<Durable>, instance_id: &str) -> Result<KvState> {
    let wanted = Filter::<Durable>::of_type::<KeyValue>()
        | Filter::of_type::<KeyValueDelta>()
        | Filter::of_type::<KeyValuePack>();
    let rows = container
        .query(Query::<Durable>::in_partition(instance_id).filter(wanted))
        .all()
        .await?;
    let mut found = KvState::default();
    for row in rows {
        found.add(row);
    }
    found.unpacked(container).await
}
