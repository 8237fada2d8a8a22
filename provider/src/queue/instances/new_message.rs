//! A message that a batch enqueues, and what this process knows of it afterwards.

use cdb_client::write::BatchOutcome;
use cdb_model::operation::{BatchError, BulkBatch, OperationIndex};
use cdb_model::{Batch, Document as _, ETag};
use duroxide::providers::WorkItem;
use tokio::time::Instant;

use super::message::Message;
use crate::queue::Services;
use crate::stored::documents::{Durable, OrchestratorItem};

/// A message that a batch enqueues.
pub(crate) struct NewMessage<'a> {
    services: &'a Services,
    document: OrchestratorItem,
    item: WorkItem,
    /// The time before the batch is sent.
    planned_at: Instant,
    operation: Option<OperationIndex>,
}

impl<'a> NewMessage<'a> {
    pub(crate) fn new(services: &'a Services, document: OrchestratorItem, item: WorkItem) -> Self {
        Self {
            services,
            document,
            item,
            planned_at: Instant::now(),
            operation: None,
        }
    }

    /// Ends the reservation of the message for this process.
    pub(crate) fn share(&mut self) {
        self.document.visible_at = self.document.due_at();
        self.document.reserved = false;
    }

    pub(crate) fn add_to(&mut self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        self.operation = Some(batch.add(self.document.create())?);
        Ok(())
    }

    /// Adds the message to a bulk, whose operations succeed or fail independently.
    pub(crate) fn add_to_bulk(&mut self, bulk: &mut BulkBatch<Durable>) -> Result<(), BatchError> {
        self.operation = Some(bulk.add(self.document.create())?);
        Ok(())
    }

    /// Returns the operation that creates the message.
    pub(crate) fn operation(&self) -> Option<OperationIndex> {
        self.operation
    }

    /// Notes the message after a committed batch. `outcome` is `None` when the answer was lost.
    pub(crate) fn committed(self, outcome: Option<&BatchOutcome<Durable>>) {
        let etag = outcome.and_then(|found| found.etag(self.operation?).cloned());
        self.written(etag);
    }

    /// Notes the message, which left this ETag if the answer arrived. Without it, the message may
    /// be written: a search of the partition finds it.
    pub(crate) fn written(self, etag: Option<ETag>) {
        let instances = self.services.instances();
        let instance_id = self.document.instance_id.clone();
        let execution = self.document.execution_id;
        let due_at = self.document.due_at();
        let message =
            etag.and_then(|etag| Message::written(self.document, self.item, etag, self.planned_at));
        match message {
            Some(message) => instances.note_message(message),
            None => instances.recheck(&instance_id, execution, due_at),
        }
    }
}
