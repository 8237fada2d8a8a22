//! The changes that the events of a turn make to a key-value store.

use std::collections::BTreeMap;

use cdb_model::{Stored, Timestamp};
use duroxide::{Event, EventKind};

use super::state::KvState;
use crate::stored::documents::{KeyValue, KeyValueDelta};

/// The values that a new course of an instance begins with; `None` for a key that did not exist.
type Restored = BTreeMap<String, Option<KeyValue>>;

/// The last delta per key.
type Touched = BTreeMap<String, KeyValueDelta>;

/// The changes of a key-value store by one turn.
#[derive(Debug, Default)]
pub(crate) struct KvChanges {
    pub(super) values: Vec<KeyValue>,
    pub(super) deltas: Vec<KeyValueDelta>,
    pub(super) gone_values: Vec<Stored<KeyValue>>,
    pub(super) gone_deltas: Vec<Stored<KeyValueDelta>>,
}

impl KvChanges {
    /// Returns whether there is no change.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
            && self.deltas.is_empty()
            && self.gone_values.is_empty()
            && self.gone_deltas.is_empty()
    }

    /// Adds the values that the store had before a rewound execution.
    fn restore(&mut self, state: &KvState, restored: &Restored) {
        for (key, value) in restored {
            if let Some(value) = value {
                self.values.push(value.clone());
                continue;
            }
            let stored = state.store.iter();
            let stored = stored.filter(|stored| stored.document.key == *key);
            self.gone_values.extend(stored.cloned());
        }
    }
}

/// Returns the value of a key after the events of a turn.
pub(crate) fn value_after<'a>(
    key: &str,
    events: &'a [Event],
    before: impl FnOnce() -> Option<&'a str>,
) -> Option<&'a str> {
    let change = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::KeyValueSet {
            key: set, value, ..
        } => (set == key).then_some(Some(&**value)),
        EventKind::KeyValueCleared { key: cleared } => (cleared == key).then_some(None),
        EventKind::KeyValuesCleared => Some(None),
        _ => None,
    });
    change.unwrap_or_else(before)
}

impl KvState {
    /// Returns the changes for a turn that has [`touched`](Self::touched) these keys, with the values
    /// that a new course begins with. The end of an execution moves all its deltas into the store.
    pub(crate) fn changes(
        &self,
        touched: Touched,
        restored: &Restored,
        terminal: bool,
    ) -> KvChanges {
        let mut changes = if terminal {
            self.merged(touched)
        } else {
            KvChanges {
                deltas: touched.into_values().collect(),
                ..KvChanges::default()
            }
        };
        changes.restore(self, restored);
        changes
    }

    /// Returns the changes that move all deltas into the store.
    fn merged(&self, touched: Touched) -> KvChanges {
        let before = self.delta.iter().map(|stored| stored.document.clone());
        let before = before.map(|delta| (delta.key.clone(), delta));
        let mut deltas: BTreeMap<String, KeyValueDelta> = before.collect();
        deltas.extend(touched);
        let mut changes = KvChanges {
            gone_deltas: self.delta.clone(),
            ..KvChanges::default()
        };
        for (key, delta) in deltas {
            let old = self.store.iter().find(|stored| stored.document.key == key);
            match delta.value {
                Some(value) => changes.values.push(KeyValue {
                    instance_id: delta.instance_id,
                    key,
                    value,
                    execution_id: delta.execution_id,
                    last_updated_at_ms: delta.last_updated_at_ms,
                }),
                // Deleting a missing document would abort the whole batch.
                None => changes.gone_values.extend(old.cloned()),
            }
        }
        changes
    }

    /// Returns the last delta per key that the events write. They may clear values that are not in
    /// the store yet: those that a new course begins with.
    pub(crate) fn touched(
        &self,
        instance_id: &str,
        execution_id: u64,
        restored: &Restored,
        events: &[Event],
        now: Timestamp,
    ) -> Touched {
        let mut touched: BTreeMap<&str, (Option<&String>, Timestamp)> = BTreeMap::new();
        for event in events {
            match &event.kind {
                EventKind::KeyValueSet {
                    key,
                    value,
                    last_updated_at_ms,
                } => {
                    let at = Timestamp::from_millis(*last_updated_at_ms);
                    touched.insert(key, (Some(value), at));
                }
                EventKind::KeyValueCleared { key } => {
                    touched.insert(key, (None, now));
                }
                EventKind::KeyValuesCleared => {
                    let stored = self.store.iter().map(|stored| &*stored.document.key);
                    let stored = stored.chain(restored.keys().map(String::as_str));
                    let changed = self.delta.iter().map(|stored| &*stored.document.key);
                    let earlier: Vec<&str> = touched.keys().copied().collect();
                    let keys = stored.chain(changed).chain(earlier);
                    touched.extend(keys.map(|key| (key, (None, now))));
                }
                _ => {}
            }
        }
        let touched = touched.into_iter();
        let deltas = touched.map(|(key, (value, at))| KeyValueDelta {
            instance_id: instance_id.to_owned(),
            key: key.to_owned(),
            value: value.cloned(),
            execution_id,
            last_updated_at_ms: at,
        });
        deltas.map(|delta| (delta.key.clone(), delta)).collect()
    }
}
