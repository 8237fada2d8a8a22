//! The state of an instance's key-value store, and its reads for clients.

use std::collections::HashMap;

use cdb_client::ContainerClient;
use cdb_model::query::Filter;
use cdb_model::value::{IdError, ItemId};
use cdb_model::{Document, DocumentKey, ETag, Query, Stored, Timestamp};
use duroxide::providers::KvEntry;

use crate::error::{Error, Result};
use crate::stored::documents::{
    Durable, KeyValue, KeyValueDelta, KeyValueDeltaKey, KeyValueKey, KeyValuePack, KeyValuePackKey,
    PackedKeyValues,
};
use crate::stored::spill;

/// The key-value pairs that are stored for an instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct KvState {
    pub(crate) store: Vec<Stored<KeyValue>>,
    pub(crate) delta: Vec<Stored<KeyValueDelta>>,
    /// The document that both were read from; `None` if each pair has a document of its own.
    pub(crate) pack: Option<KeyValuePack>,
}

impl KvState {
    /// Adds a document that a query has found. Ignores documents of other types.
    pub(crate) fn add(&mut self, row: Stored<Durable>) {
        let mut document = None;
        // A document of a variant keeps id, ETag and timestamp of its row.
        let row = row.map(|found| document = Some(found));
        match document {
            Some(Durable::KeyValue(value)) => self.store.push(row.map(|()| value)),
            Some(Durable::KeyValueDelta(delta)) => self.delta.push(row.map(|()| delta)),
            Some(Durable::KeyValuePack(pack)) => self.pack = Some(pack),
            _ => {}
        }
    }

    /// Returns the effective state of the added documents. A pack replaces all single documents.
    ///
    /// # Errors
    /// Fails when the pack cannot be read or decoded.
    pub(crate) async fn unpacked(self, container: &ContainerClient<Durable>) -> Result<Self> {
        let Some(pack) = self.pack else {
            return Ok(self);
        };
        let text = spill::read(container, pack.value.clone()).await?;
        let contents = serde_json::from_str(&text)
            .map_err(|error| Error::Damaged(format!("the key-value store: {error}")))?;
        Ok(Self {
            pack: Some(pack),
            ..Self::of(contents)?
        })
    }

    /// Returns the state of documents without ETags.
    ///
    /// # Errors
    /// Fails when a key has no valid id.
    pub(crate) fn of(contents: PackedKeyValues) -> Result<Self> {
        let store = contents.store.into_iter().map(unversioned);
        let delta = contents.delta.into_iter().map(unversioned);
        let no_id = |_| Error::Damaged("a key of the key-value store has no id".to_owned());
        Ok(Self {
            store: store.collect::<Result<_, _>>().map_err(no_id)?,
            delta: delta.collect::<Result<_, _>>().map_err(no_id)?,
            pack: None,
        })
    }

    /// Returns the bytes of all values, with an estimate of the overhead.
    pub(crate) fn bytes(&self) -> usize {
        let store = self.store.iter().map(|stored| stored.document.value.len());
        let delta = self.delta.iter();
        let delta = delta.map(|stored| stored.document.value.as_ref().map_or(0, String::len));
        store.chain(delta).map(|value| value + 512).sum()
    }

    /// Returns the values that a turn starts with.
    pub(crate) fn snapshot(&self) -> HashMap<String, KvEntry> {
        let entry = |stored: &Stored<KeyValue>| {
            let document = &stored.document;
            let entry = KvEntry {
                value: document.value.clone(),
                last_updated_at_ms: document.last_updated_at_ms.as_millis(),
            };
            (document.key.clone(), entry)
        };
        self.store.iter().map(entry).collect()
    }

    /// Returns the value of a key that clients see.
    pub(crate) fn visible_value(&self, key: &str) -> Option<&str> {
        let mut changed = self.delta.iter();
        if let Some(change) = changed.find(|stored| stored.document.key == key) {
            return change.document.value.as_deref();
        }
        let mut stored = self.store.iter().map(|stored| &stored.document);
        let value = stored.find(|stored| stored.key == key)?;
        Some(&value.value)
    }

    /// Returns the values that clients see: the store with the running execution's changes.
    pub(crate) fn visible(&self) -> HashMap<String, String> {
        let mut values: HashMap<String, String> = self
            .store
            .iter()
            .map(|stored| (stored.document.key.clone(), stored.document.value.clone()))
            .collect();
        for stored in &self.delta {
            let key = &stored.document.key;
            match &stored.document.value {
                Some(value) => values.insert(key.clone(), value.clone()),
                None => values.remove(key),
            };
        }
        values
    }
}

/// Wraps a document of a pack, which has no ETag of its own.
fn unversioned<D: Document>(document: D) -> Result<Stored<D>, IdError> {
    Ok(Stored {
        id: document.key().to_id()?,
        document,
        etag: ETag::new(String::new()),
        timestamp: Timestamp::default(),
    })
}

/// Replaces a document by its new version.
pub(super) fn replace<D>(documents: &mut Vec<Stored<D>>, id: ItemId, document: D, etag: ETag) {
    documents.retain(|stored| stored.id != id);
    documents.push(Stored {
        id,
        document,
        etag,
        timestamp: Timestamp::default(),
    });
}

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
