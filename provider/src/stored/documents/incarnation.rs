//! Which of the instances that have had an id.

use cdb_model::stored::Unreadable;
use cdb_model::{Projection, Timestamp};
use serde::Deserialize;

use super::instance::Instance;

/// An instance as an operation has found it.
///
/// While the operation stands still, others may delete the instance and start one with the same id,
/// of its own or below another parent. So an operation remembers what it has found, and every write
/// depends on a version of a document that was checked against it.
#[derive(Clone, Debug)]
pub(crate) struct Incarnation {
    pub(crate) instance_id: String,
    pub(crate) parent: Option<String>,
    /// `None` if it has not begun, or if the time cannot be read.
    created_at: Option<Timestamp>,
}

/// The fields of an instance that tell its incarnation.
#[derive(Projection, Deserialize)]
#[projection(of = Instance)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IncarnationFields {
    instance_id: String,
    parent_instance_id: Option<String>,
    created_at: Timestamp,
}

impl Incarnation {
    /// Describes an instance that this parent, or none, has started and that need not have begun.
    pub(crate) fn started_by(parent: Option<String>, instance_id: &str) -> Self {
        Self {
            instance_id: instance_id.to_owned(),
            parent,
            created_at: None,
        }
    }

    pub(crate) fn of(instance: &Instance) -> Self {
        Self {
            instance_id: instance.instance_id.clone(),
            parent: instance.parent_instance_id.clone(),
            created_at: Some(instance.created_at),
        }
    }

    /// Describes the row of an instance or of its fields. Returns `None` for a row without an id.
    pub(crate) fn of_unreadable(found: &Unreadable) -> Option<Self> {
        Some(Self {
            instance_id: found.field(Instance::INSTANCE_ID)?,
            parent: found.field(Instance::PARENT_INSTANCE_ID).flatten(),
            created_at: found.field(Instance::CREATED_AT),
        })
    }

    /// Returns whether it was found after it had begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.created_at.is_some()
    }

    /// Returns whether both describe the same instance.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let is_created_with = |at| other.created_at.is_none_or(|other| other == at);
        self.instance_id == other.instance_id
            && self.parent == other.parent
            && self.created_at.is_none_or(is_created_with)
    }
}

impl From<IncarnationFields> for Incarnation {
    fn from(found: IncarnationFields) -> Self {
        Self {
            instance_id: found.instance_id,
            parent: found.parent_instance_id,
            created_at: Some(found.created_at),
        }
    }
}
