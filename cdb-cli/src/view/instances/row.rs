//! An instance as the commands show it.

use std::ops::{Deref, DerefMut};

use cdb_provider::observe::ObservedInstance;
use serde::Serialize;
use serde_json::Value;

use super::standstill;
use crate::output::short;

/// An instance.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Row(ObservedInstance);

impl Row {
    pub(crate) fn of(instance: ObservedInstance) -> Self {
        Self(instance)
    }

    pub(crate) fn into_id(self) -> String {
        self.0.id
    }

    /// Returns the cells of a list.
    pub(super) fn cells(&self) -> Vec<String> {
        let status = match (&self.waits_for, &self.error) {
            (Some(waits_for), _) if standstill::is_of_work(waits_for) => {
                standstill::Shown(waits_for).to_string()
            }
            (_, Some(error)) => format!("{}: {}", self.state, short(error, 40)),
            _ => self.state.clone(),
        };
        let status = match self.execution {
            1 => status,
            execution => format!("{status} #{execution}"),
        };
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(name, value)| match serde_json::to_value(value) {
            Ok(Value::String(text)) => format!("{name}={text}"),
            Ok(other) => format!("{name}={other}"),
            Err(_) => name.clone(),
        });
        vec![
            self.created_at.to_string(),
            status,
            short(&self.orchestration, 40),
            short(&attributes.collect::<Vec<_>>().join(" "), 80),
            short(&self.id, 120),
        ]
    }
}

impl Deref for Row {
    type Target = ObservedInstance;

    fn deref(&self) -> &ObservedInstance {
        &self.0
    }
}

impl DerefMut for Row {
    fn deref_mut(&mut self) -> &mut ObservedInstance {
        &mut self.0
    }
}
