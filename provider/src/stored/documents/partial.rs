//! The readable part of documents that do not match their types: enough to lock and delete them,
//! and to fail what they belong to. A partial document is never written back as a whole: its lock
//! is a patch, and a commit replaces or deletes it.

use cdb_model::stored::Unreadable;
use cdb_model::value::PartitionKeyValue;
use cdb_model::{Document, DocumentKey, Stored};

use super::chunk::Text;
use super::instance::{Instance, Status};
use super::outbox_intent::OutboxIntent;
use super::queue_item::{OrchestratorItem, WorkerItem, WorkerItemKey, dispatch_slot};
use super::schema::FIRST_DUE;

/// A document type that can be decoded in part.
pub(crate) trait Partial: Document {
    /// Decodes the readable fields of a document of this instance. Returns `None` for a document
    /// without its own key.
    fn decode(found: &Unreadable, instance_id: String) -> Option<Self>;

    /// Decodes the readable fields. Returns `None` for another type, and for a document without an
    /// instance or without its own key.
    fn partial(found: &Unreadable) -> Option<Self> {
        let instance_id = found.is_a::<Self>().then(|| instance_of(found))?;
        Self::decode(found, instance_id?)
    }

    /// Decodes the readable fields, with the document's id, ETag and timestamp.
    fn partial_stored(found: &Unreadable) -> Option<Stored<Self>> {
        let location = found.location.as_ref()?;
        Some(Stored {
            id: location.id.clone(),
            document: Self::partial(found)?,
            etag: location.etag.clone(),
            timestamp: found.timestamp(),
        })
    }
}

fn instance_of(found: &Unreadable) -> Option<String> {
    match found.location.as_ref()?.partition_key.values() {
        [PartitionKeyValue::String(instance_id)] => Some(instance_id.clone()),
        _ => None,
    }
}

impl Partial for Instance {
    fn decode(found: &Unreadable, instance_id: String) -> Option<Self> {
        let base = Self {
            status: Status::Running,
            history_documents: None,
            ..Self::pending(&instance_id, found.timestamp())
        };
        Some(Self {
            instance_id,
            ..found.fields_over(base)
        })
    }
}

impl Partial for OrchestratorItem {
    fn decode(found: &Unreadable, instance_id: String) -> Option<Self> {
        let base = Self {
            visible_at: FIRST_DUE,
            enqueued_at: found.timestamp(),
            ..Self::default()
        };
        Some(Self {
            work_item: Text::Damaged(found.to_string()),
            dispatch_slot: dispatch_slot(&instance_id),
            instance_id,
            ..found.fields_over(base)
        })
    }
}

impl Partial for WorkerItem {
    fn decode(found: &Unreadable, instance_id: String) -> Option<Self> {
        // The failure of the activity needs both ids. The item id holds them too.
        let key = found.location.as_ref()?;
        let key = WorkerItemKey::parse(key.id.as_str()).ok();
        let (execution_id, activity_id) = match key {
            Some(key) => (key.execution_id, key.activity_id),
            None => (
                found.field(Self::EXECUTION_ID)?,
                found.field(Self::ACTIVITY_ID)?,
            ),
        };
        let base = Self {
            visible_at: FIRST_DUE,
            enqueued_at: found.timestamp(),
            ..Self::default()
        };
        Some(Self {
            execution_id,
            activity_id,
            work_item: Text::Damaged(found.to_string()),
            dispatch_slot: dispatch_slot(&instance_id),
            instance_id,
            ..found.fields_over(base)
        })
    }
}

impl Partial for OutboxIntent {
    /// Decodes only the location: a message must not be delivered in part.
    fn decode(found: &Unreadable, instance_id: String) -> Option<Self> {
        let key = found.field(Self::IDEMPOTENCY_KEY).unwrap_or_default();
        Some(Self::new(&instance_id, key, "", found.timestamp()))
    }
}
