//! The key-value store of an instance.

use std::collections::BTreeMap;

use cdb_provider::documents::{KeyValue, KeyValueDelta};
use serde::Serialize;

use crate::container::Orchestrations;

/// A value of the key-value store.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KeyAndValue {
    pub key: String,
    pub value: String,
}

/// Applies the changes of the running execution to the key-value store.
pub(crate) fn merged(
    orchestrations: &Orchestrations,
    values: Vec<KeyValue>,
    changes: Vec<KeyValueDelta>,
) -> Vec<KeyAndValue> {
    let values = values.into_iter().map(|value| (value.key, value.value));
    let mut store: BTreeMap<String, String> = values.collect();
    for change in changes {
        match change.value {
            Some(value) => store.insert(change.key, value),
            None => store.remove(&change.key),
        };
    }
    // The instance has the attributes themselves.
    store.remove(KeyValue::SEARCH_ATTRIBUTES);
    let pairs = store.into_iter();
    pairs
        .map(|(key, value)| KeyAndValue {
            key,
            value: orchestrations.provider.decode(value),
        })
        .collect()
}
