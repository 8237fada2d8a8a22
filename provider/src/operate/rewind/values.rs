//! The key-value store as an execution found it.
//!
//! The end of an execution merges its changes into the store, and replay repeats them, so the
//! execution that continues a part of its history needs the values from before. The histories of
//! earlier executions have them.

use std::collections::BTreeSet;

use duroxide::{Event, INITIAL_EVENT_ID};

use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::ExecutionKey;
use crate::stored::history;
use crate::stored::kv::{EventChanges, Values};

/// The keys whose earlier values are wanted.
#[derive(Debug, Default)]
pub(super) struct Keys {
    named: BTreeSet<String>,
    /// Whether every key is wanted, not only the named ones.
    all: bool,
}

impl Keys {
    /// Returns every key.
    pub(super) fn all() -> Self {
        Self {
            all: true,
            ..Self::default()
        }
    }

    /// Returns the keys that these events change.
    pub(super) fn changed_by(events: &[Event]) -> Self {
        let changes = EventChanges::of(events);
        Self {
            named: changes.values.into_keys().collect(),
            all: changes.cleared,
        }
    }

    fn contains(&self, key: &str) -> bool {
        self.all || self.named.contains(key)
    }

    fn are_known(&self, values: &Values) -> bool {
        !self.all && self.named.iter().all(|key| values.contains_key(key))
    }
}

/// Returns the values of these keys before an execution. Keys whose earlier values are unknown,
/// because executions were pruned, are left out.
pub(super) async fn before(
    services: &Services,
    instance_id: &str,
    execution_id: u64,
    keys: Keys,
) -> Result<Values> {
    let mut values = Values::new();
    for earlier in (1..execution_id).rev() {
        if keys.are_known(&values) {
            return Ok(values);
        }
        let key = ExecutionKey::new(instance_id, earlier);
        let execution = services.container().read(&key).await?;
        if execution.is_some_and(|execution| execution.rewound.is_some()) {
            continue; // Its changes were undone.
        }
        let events = history::read_execution(services.container(), instance_id, earlier).await;
        let events = events.map_err(|error| match error {
            // A prune deletes chunks before the documents that refer to them.
            Error::Damaged(reason) => Error::Retryable(format!(
                "execution {earlier} of `{instance_id}` is damaged or being pruned; try again: {reason}"
            )),
            error => error,
        })?;
        if !is_whole(services, instance_id, earlier).await? {
            return Ok(values);
        }
        let mut changes = EventChanges::of(&events);
        changes.values.retain(|key, _| keys.contains(key));
        for (key, value) in changes.values {
            values.entry(key).or_insert(value);
        }
        if changes.cleared {
            break;
        }
    }
    for key in keys.named {
        values.entry(key).or_default();
    }
    Ok(values)
}

/// Returns whether a history that was just read is whole: a prune deletes the first event first.
async fn is_whole(services: &Services, instance_id: &str, execution_id: u64) -> Result<bool> {
    let latest = services.container().latest_committed();
    let left = history::read_segments(&latest, instance_id, execution_id).await?;
    Ok(left
        .documents
        .first()
        .is_some_and(|first| first.event_id == INITIAL_EVENT_ID))
}
