//! A document in the partition of an instance that is being deleted.

use cdb_model::Stored;
use cdb_model::stored::{Location, Unreadable};

use crate::stored::documents::{Durable, Incarnation, Instance, OutboxIntent, Partial as _};
use crate::stored::is_ours;

/// A document to delete.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) location: Location,
    /// `None` if the document cannot be decoded.
    pub(super) document: Option<Durable>,
    /// What can be read of an instance that cannot be decoded.
    damaged: Option<Box<(Instance, Incarnation)>>,
}

impl Row {
    /// Wraps a document of the instance. Returns `None` for a document of another application in
    /// this container.
    pub(super) fn of(
        instance_id: &str,
        found: Result<Stored<Durable>, Unreadable>,
    ) -> Option<Self> {
        match found {
            Ok(stored) => Some(Self {
                location: Location {
                    id: stored.id,
                    partition_key: instance_id.into(),
                    etag: stored.etag,
                },
                document: Some(stored.document),
                damaged: None,
            }),
            Err(found) if is_ours(&found) => Some(Self {
                damaged: Instance::partial(&found)
                    .zip(Incarnation::of_unreadable(&found))
                    .map(Box::new),
                location: found.location?,
                document: None,
            }),
            Err(_) => None,
        }
    }

    /// Returns the document if it is an instance, decoded or not.
    pub(super) fn instance(&self) -> Option<(&Instance, Incarnation)> {
        match (&self.document, &self.damaged) {
            (Some(Durable::Instance(instance)), _) => Some((instance, Incarnation::of(instance))),
            (_, Some(damaged)) => Some((&damaged.0, damaged.1.clone())),
            _ => None,
        }
    }

    /// Returns the document if it holds undelivered messages.
    pub(super) fn intent(&self) -> Option<&OutboxIntent> {
        match &self.document {
            Some(Durable::OutboxIntent(intent)) => Some(intent),
            _ => None,
        }
    }

    /// Returns the position in the order of deletion: queues first, the instance last. Of an
    /// execution, the first event is deleted first, because its absence shows a partial deletion.
    pub(super) fn rank(&self) -> (u8, u64) {
        match &self.document {
            Some(Durable::OrchestratorItem(_) | Durable::WorkerItem(_)) => (0, 0),
            Some(Durable::History(segment)) => (1, segment.event_id),
            Some(Durable::Execution(_)) => (2, 0),
            _ if self.instance().is_some() => (3, 0),
            _ => (1, 0),
        }
    }
}
