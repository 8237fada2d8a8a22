//! The key-value pairs that are stored for an instance.

use std::collections::HashMap;

use cdb_model::{Document, DocumentKey, ETag, ItemId, Stored, Timestamp};
use duroxide::providers::KvEntry;

use crate::documents::{KeyValue, KeyValueDelta, KeyValuePack, PackedKeyValues};

/// The key-value pairs that are stored for an instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct KvState {
    pub(crate) store: Vec<Stored<KeyValue>>,
    pub(crate) delta: Vec<Stored<KeyValueDelta>>,
    /// The document that both were read from, instead of documents of their own.
    pub(crate) pack: Option<KeyValuePack>,
}

/// The documents of a key-value store as they are found, of which a pack may make the others void.
#[derive(Debug, Default)]
pub(crate) struct KvRows {
    pub(crate) singles: KvState,
    pub(crate) pack: Option<KeyValuePack>,
}

impl KvState {
    /// The contents of a pack. `None` when one of its keys has no id.
    pub(crate) fn unpacked(pack: KeyValuePack, contents: PackedKeyValues) -> Option<Self> {
        let store = contents.store.into_iter().map(unversioned);
        let delta = contents.delta.into_iter().map(unversioned);
        Some(Self {
            store: store.collect::<Option<_>>()?,
            delta: delta.collect::<Option<_>>()?,
            pack: Some(pack),
        })
    }

    /// Bytes of all values, with an estimate for what surrounds them.
    pub(crate) fn bytes(&self) -> usize {
        let store = self.store.iter().map(|stored| stored.document.value.len());
        let delta = self.delta.iter();
        let delta = delta.map(|stored| stored.document.value.as_ref().map_or(0, String::len));
        store.chain(delta).map(|value| value + 512).sum()
    }

    /// What the turn's orchestration starts from.
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

    /// What everyone else sees: the store with the running execution's changes.
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

/// A document that has no version of its own.
fn unversioned<D: Document>(document: D) -> Option<Stored<D>> {
    Some(Stored {
        id: document.key().to_id().ok()?,
        document,
        etag: ETag::new(String::new()),
        timestamp: Timestamp::default(),
    })
}

/// Puts a new version in the place of the one before.
pub(super) fn put<D>(documents: &mut Vec<Stored<D>>, id: ItemId, document: D, etag: ETag) {
    documents.retain(|stored| stored.id != id);
    documents.push(Stored {
        id,
        document,
        etag,
        timestamp: Timestamp::default(),
    });
}
