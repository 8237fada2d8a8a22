//! The key-value store as an execution found it.
//!
//! The end of an execution merges its changes into the store, and replay repeats them, so a new
//! course needs the values from before. The histories of earlier executions have them.

use std::collections::BTreeMap;

use duroxide::{Event, EventKind};

use crate::documents::{ExecutionKey, KeyValue};
use crate::error::Result;
use crate::history;
use crate::provider::CosmosDBProvider;

/// Values by key; `None` for a key that did not exist.
pub(super) type Values = BTreeMap<String, Option<KeyValue>>;

/// Returns the values that the keys changed by these events of an execution had before. Keys whose
/// earlier values are unknown, because executions were pruned, are left out.
pub(super) async fn before(
    store: &CosmosDBProvider,
    instance_id: &str,
    execution_id: u64,
    events: &[Event],
) -> Result<Values> {
    let mut values = Values::new();
    apply(&mut values, events);
    let is_clear = |event: &Event| matches!(event.kind, EventKind::KeyValuesCleared);
    let all_cleared = events.iter().any(is_clear);
    if values.is_empty() && !all_cleared {
        return Ok(values);
    }
    for value in values.values_mut() {
        *value = None;
    }
    for earlier in 1..execution_id {
        let key = ExecutionKey::new(instance_id, earlier);
        let execution = store.container().read(&key).await?;
        if execution.is_some_and(|execution| execution.rewound.is_some()) {
            continue; // Its changes were undone.
        }
        let events = history::read_execution(store.container(), instance_id, earlier).await?;
        if events.is_empty() {
            return Ok(Values::new());
        }
        let mut then = values.clone();
        apply(&mut then, &events);
        then.retain(|key, _| all_cleared || values.contains_key(key));
        values = then;
    }
    Ok(values)
}

/// Applies the changes of a history. A clear of all keys is one of each key seen so far.
fn apply(values: &mut Values, events: &[Event]) {
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
                    last_updated_at_ms: cdb_model::Timestamp::from_millis(*last_updated_at_ms),
                };
                values.insert(key.clone(), Some(value));
            }
            EventKind::KeyValueCleared { key } => {
                values.insert(key.clone(), None);
            }
            EventKind::KeyValuesCleared => values.values_mut().for_each(|value| *value = None),
            _ => {}
        }
    }
}
