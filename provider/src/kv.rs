//! The key-value store of an instance.
//!
//! A running execution writes deltas; when it ends they are merged into the store. A turn starts from the store alone,
//! because replay produces the execution's own changes again (provider guide, "KV Store"); clients see both.

use std::collections::{BTreeMap, HashMap};

use cdb_client::{BatchOutcome, ContainerClient};
use cdb_model::{
    Batch, BatchError, Document, DocumentKey, ETag, Filter, ItemId, OperationIndex, Query, Stored,
    Timestamp,
};
use duroxide::providers::{KvEntry, ProviderError};
use duroxide::{Event, EventKind};

use crate::documents::{Durable, KeyValue, KeyValueDelta, KeyValueDeltaKey, KeyValueKey};
use crate::error::provider_error;

/// What is stored for an instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct KvState {
    pub(crate) store: Vec<Stored<KeyValue>>,
    pub(crate) delta: Vec<Stored<KeyValueDelta>>,
}

/// What a turn does to it.
#[derive(Debug, Default)]
pub(crate) struct KvChanges {
    values: Vec<KeyValue>,
    deltas: Vec<KeyValueDelta>,
    gone_values: Vec<Stored<KeyValue>>,
    gone_deltas: Vec<Stored<KeyValueDelta>>,
}

impl KvState {
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

impl KvChanges {
    /// Adds them to the commit.
    pub(crate) fn add_to(self, batch: &mut Batch<Durable>) -> Result<KvWritten, BatchError> {
        let values = self.values.into_iter();
        let values = values
            .map(|value| batch.upsert(&value).map(|operation| (value, operation)))
            .collect::<Result<_, _>>()?;
        let deltas = self.deltas.into_iter();
        let deltas = deltas
            .map(|delta| batch.upsert(&delta).map(|operation| (delta, operation)))
            .collect::<Result<_, _>>()?;
        let mut gone = Vec::new();
        for value in &self.gone_values {
            batch.delete_stored(value)?;
            gone.push(value.id.clone());
        }
        for delta in &self.gone_deltas {
            batch.delete_stored(delta)?;
            gone.push(delta.id.clone());
        }
        Ok(KvWritten {
            values,
            deltas,
            gone,
        })
    }
}

/// Changes as they are part of a batch.
#[derive(Debug)]
pub(crate) struct KvWritten {
    values: Vec<(KeyValue, OperationIndex)>,
    deltas: Vec<(KeyValueDelta, OperationIndex)>,
    gone: Vec<ItemId>,
}

impl KvWritten {
    /// The state after the batch. `None` when its answer does not say which versions it left.
    pub(crate) fn applied(
        &self,
        mut state: KvState,
        outcome: &BatchOutcome<Durable>,
    ) -> Option<KvState> {
        state.store.retain(|stored| !self.gone.contains(&stored.id));
        state.delta.retain(|stored| !self.gone.contains(&stored.id));
        for (value, operation) in &self.values {
            let etag = outcome.etag(*operation)?.clone();
            put(
                &mut state.store,
                value.key().to_id().ok()?,
                value.clone(),
                etag,
            );
        }
        for (delta, operation) in &self.deltas {
            let etag = outcome.etag(*operation)?.clone();
            put(
                &mut state.delta,
                delta.key().to_id().ok()?,
                delta.clone(),
                etag,
            );
        }
        Some(state)
    }
}

/// Puts a new version in the place of the one before.
fn put<D>(documents: &mut Vec<Stored<D>>, id: ItemId, document: D, etag: ETag) {
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
) -> Result<Option<String>, ProviderError> {
    const READ: &str = "get_kv_value";
    let failed = |error| provider_error(READ, &error);
    let delta = container
        .read(&KeyValueDeltaKey::new(instance_id, key))
        .await
        .map_err(failed)?;
    if let Some(delta) = delta {
        return Ok(delta.document.value);
    }
    let stored = container
        .read(&KeyValueKey::new(instance_id, key))
        .await
        .map_err(failed)?;
    Ok(stored.map(|stored| stored.document.value))
}

/// Implements `Provider::get_kv_all_values`.
pub(crate) async fn read_all(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<HashMap<String, String>, ProviderError> {
    Ok(load(container, "get_kv_all_values", instance_id)
        .await?
        .visible())
}

/// Everything that is stored for an instance.
pub(crate) async fn load(
    container: &ContainerClient<Durable>,
    operation: &'static str,
    instance_id: &str,
) -> Result<KvState, ProviderError> {
    let wanted = Filter::<Durable>::of_type::<KeyValue>() | Filter::of_type::<KeyValueDelta>();
    let rows = container
        .query(Query::<Durable>::in_partition(instance_id).filter(wanted))
        .all()
        .await
        .map_err(|error| provider_error(operation, &error))?;
    let mut state = KvState::default();
    for row in rows {
        let Stored {
            id,
            document,
            etag,
            timestamp,
        } = row;
        match document {
            Durable::KeyValue(document) => {
                state.store.push(Stored {
                    id,
                    document,
                    etag,
                    timestamp,
                });
            }
            Durable::KeyValueDelta(document) => {
                state.delta.push(Stored {
                    id,
                    document,
                    etag,
                    timestamp,
                });
            }
            _ => {}
        }
    }
    Ok(state)
}
