//! What is stored for an instance, and what a turn makes of it.

use std::collections::{BTreeMap, HashMap};

use cdb_model::{Document, DocumentKey, ETag, ItemId, Stored, Timestamp};
use duroxide::providers::KvEntry;
use duroxide::{Event, EventKind};

use super::KvChanges;
use crate::documents::{KeyValue, KeyValueDelta, KeyValuePack, PackedKeyValues};

/// What is stored for an instance.
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

    /// What a turn's events change. At the end of an execution all its deltas go into the store.
    pub(crate) fn changes(
        &self,
        instance_id: &str,
        execution_id: u64,
        events: &[Event],
        terminal: bool,
        now: Timestamp,
    ) -> KvChanges {
        let touched = self.touched(instance_id, execution_id, events, now);
        if !terminal {
            return KvChanges {
                deltas: touched.into_values().collect(),
                ..KvChanges::default()
            };
        }
        let mut deltas: BTreeMap<String, KeyValueDelta> = self
            .delta
            .iter()
            .map(|stored| (stored.document.key.clone(), stored.document.clone()))
            .collect();
        deltas.extend(touched);
        let mut changes = KvChanges {
            gone_deltas: self.delta.clone(),
            ..KvChanges::default()
        };
        for (key, delta) in deltas {
            match delta.value {
                Some(value) => changes.values.push(KeyValue {
                    instance_id: delta.instance_id,
                    key,
                    value,
                    execution_id: delta.execution_id,
                    last_updated_at_ms: delta.last_updated_at_ms,
                }),
                // Deleting what is not there would abort the whole batch.
                None => changes.gone_values.extend(
                    self.store
                        .iter()
                        .find(|stored| stored.document.key == key)
                        .cloned(),
                ),
            }
        }
        changes
    }

    /// The deltas that the events write, by key; the last one counts.
    fn touched(
        &self,
        instance_id: &str,
        execution_id: u64,
        events: &[Event],
        now: Timestamp,
    ) -> BTreeMap<String, KeyValueDelta> {
        let delta = |key: &str, value: Option<&String>, at: Timestamp| KeyValueDelta {
            instance_id: instance_id.to_owned(),
            key: key.to_owned(),
            value: value.cloned(),
            execution_id,
            last_updated_at_ms: at,
        };
        let mut touched = BTreeMap::new();
        for event in events {
            match &event.kind {
                EventKind::KeyValueSet {
                    key,
                    value,
                    last_updated_at_ms,
                } => {
                    let at = Timestamp::from_millis(*last_updated_at_ms);
                    touched.insert(key.clone(), delta(key, Some(value), at));
                }
                EventKind::KeyValueCleared { key } => {
                    touched.insert(key.clone(), delta(key, None, now));
                }
                EventKind::KeyValuesCleared => {
                    let stored = self.store.iter().map(|stored| &stored.document.key);
                    let changed = self.delta.iter().map(|stored| &stored.document.key);
                    let mut keys: Vec<String> = stored.chain(changed).cloned().collect();
                    keys.extend(touched.keys().cloned());
                    for key in keys {
                        let cleared = delta(&key, None, now);
                        touched.insert(key, cleared);
                    }
                }
                _ => {}
            }
        }
        touched
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
