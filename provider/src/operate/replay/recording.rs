//! A recorded execution, and its reading from the store.

use std::collections::HashMap;

use duroxide::Event;
use duroxide::providers::KvEntry;

use super::difference::{DifferenceKind, ReplayDifference};
use crate::error::Result;
use crate::stored::{Store, history, kv};

/// One execution of an instance, as it is stored.
#[derive(Clone, Debug)]
pub struct Recording {
    pub(super) instance: String,
    pub(super) execution: u64,
    pub(super) events: Vec<Event>,
    pub(super) key_values: HashMap<String, KvEntry>,
}

impl Recording {
    /// A recording of the events of an execution, in their order.
    pub fn new(instance: impl Into<String>, execution: u64, events: Vec<Event>) -> Self {
        Self {
            instance: instance.into(),
            execution,
            events,
            key_values: HashMap::new(),
        }
    }

    /// Sets the key-value store at the start of the execution; empty by default.
    #[must_use]
    pub fn with_key_values(mut self, values: HashMap<String, KvEntry>) -> Self {
        self.key_values = values;
        self
    }

    /// The instance.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// A difference at a recorded event.
    pub(super) fn difference(
        &self,
        kind: DifferenceKind,
        event: Option<&Event>,
        text: String,
    ) -> ReplayDifference {
        ReplayDifference {
            instance: self.instance.clone(),
            execution: self.execution,
            event: event.map(Event::event_id),
            kind,
            text,
        }
    }
}

/// Reads the current execution of an instance.
pub(crate) async fn read(store: &Store, instance_id: &str) -> Result<Option<Recording>> {
    let container = &store.container;
    let Some(stored) = history::read_instance(container, instance_id).await? else {
        return Ok(None);
    };
    let execution = stored.document.current_execution_id;
    let (events, mut values) = futures::try_join!(
        history::read_execution(container, instance_id, execution),
        kv::read_snapshot(container, instance_id),
    )?;
    if events.is_empty() {
        return Ok(None);
    }
    // A tool without the key must not compare encoded inputs with those of the code.
    let payloads = store.payloads.strict();
    let events = payloads.decode_history(events)?;
    payloads.decode_entries(&mut values)?;
    let recording = Recording::new(instance_id, execution, events);
    Ok(Some(recording.with_key_values(values)))
}
