//! A recorded execution.

use std::collections::HashMap;

use duroxide::Event;
use duroxide::providers::KvEntry;

use super::difference::{Difference, DifferenceKind};

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
    ) -> Difference {
        Difference {
            instance: self.instance.clone(),
            execution: self.execution,
            event: event.map(Event::event_id),
            kind,
            text,
        }
    }
}
