//! The changes that the events of a turn make to a key-value store.

use std::collections::BTreeMap;

use cdb_model::{Stored, Timestamp};
use duroxide::{Event, EventKind};

use super::state::KvState;
use crate::stored::documents::{KeyValue, KeyValueDelta};

/// Values by key; `None` for a key that does not exist.
pub(crate) type Values = BTreeMap<String, Option<KeyValue>>;

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
    fn restore(&mut self, state: &KvState, restored: &Values) {
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

/// The changes of the store by the events of a turn or of an execution.
#[derive(Debug, Default)]
pub(crate) struct EventChanges {
    pub(crate) values: Values,
    /// Whether the keys that `values` lacks were cleared.
    pub(crate) cleared: bool,
}

impl EventChanges {
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut changes = Self::default();
        for event in events {
            match &event.kind {
                EventKind::KeyValueSet {
                    key,
                    value,
                    last_updated_at_ms,
                } => {
                    let value = KeyValue {
                        instance_id: event.instance_id.clone(),
                        key: key.clone(),
                        value: value.clone(),
                        execution_id: event.execution_id,
                        last_updated_at_ms: Timestamp::from_millis(*last_updated_at_ms),
                    };
                    changes.values.insert(key.clone(), Some(value));
                }
                EventKind::KeyValueCleared { key } => {
                    changes.values.insert(key.clone(), None);
                }
                EventKind::KeyValuesCleared => {
                    let values = changes.values.values_mut();
                    values.for_each(|value| *value = None);
                    changes.cleared = true;
                }
                _ => {}
            }
        }
        changes
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
    pub(crate) fn changes(&self, touched: Touched, restored: &Values, terminal: bool) -> KvChanges {
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
        restored: &Values,
        events: &[Event],
        now: Timestamp,
    ) -> Touched {
        let mut changes = EventChanges::of(events);
        if changes.cleared {
            let stored = self.store.iter().map(|stored| &stored.document.key);
            let in_delta = self.delta.iter().map(|stored| &stored.document.key);
            for key in stored.chain(restored.keys()).chain(in_delta) {
                changes.values.entry(key.clone()).or_default();
            }
        }
        let changes = changes.values.into_iter();
        let deltas = changes.map(|(key, value)| KeyValueDelta {
            instance_id: instance_id.to_owned(),
            key,
            last_updated_at_ms: value.as_ref().map_or(now, |set| set.last_updated_at_ms),
            value: value.map(|set| set.value),
            execution_id,
        });
        deltas.map(|delta| (delta.key.clone(), delta)).collect()
    }
}
