//! Unreadable documents of the work: logs them, and keeps them from blocking other streams.
//!
//! An unreadable message that waits becomes dead with the reason, like a message that failed too
//! often. It holds only its own stream. Its id and its readable fields suffice to discard it.

use cdb_model::stored::{Location, Unreadable};
use cdb_model::{Batch, DocumentKey as _, Patch};

use super::inner::Inner;
use crate::streams::documents::{Work, WorkMessage, WorkMessageKey, WorkStreamKey};
use crate::streams::stream::StreamKey;
use crate::telemetry;

/// Logs an unreadable document.
pub(crate) fn report(unreadable: &Unreadable) {
    telemetry::unreadable();
    tracing::error!(%unreadable, "a document of the work cannot be read");
}

/// The stream of a stream document, by its id.
pub(crate) fn stream_of(unreadable: &Unreadable) -> Option<StreamKey> {
    let id = unreadable.location.as_ref()?.id.as_str();
    let key = WorkStreamKey::parse(id).ok()?;
    Some(StreamKey::new(key.lane, &key.stream))
}

/// The stream and the message id of a message document, by its id.
pub(crate) fn message_of(unreadable: &Unreadable) -> Option<(StreamKey, String)> {
    let id = unreadable.location.as_ref()?.id.as_str();
    let key = WorkMessageKey::parse(id).ok()?;
    Some((StreamKey::new(key.lane, &key.stream), key.message_id))
}

/// The readable fields of a message that is dead; its body is the whole document. `None`
/// without a position in a stream.
pub(crate) fn partial(unreadable: &Unreadable) -> Option<WorkMessage> {
    let location = unreadable.location.as_ref()?;
    let key = WorkMessageKey::parse(location.id.as_str()).ok()?;
    let sequence = unreadable.field(WorkMessage::SEQUENCE)?;
    let readable = unreadable.fields_over(WorkMessage::new(key.clone(), sequence));
    Some(WorkMessage {
        partition: key.partition,
        lane: key.lane,
        stream: key.stream,
        message_id: key.message_id,
        waiting_since: None,
        last_failure: Some(unreadable.to_string()),
        body: unreadable.json.clone(),
        ..readable
    })
}

impl Inner {
    /// Marks waiting messages that cannot be read as dead.
    pub(crate) async fn mark_unreadable_dead(&self, messages: &[Unreadable]) {
        for unreadable in messages {
            report(unreadable);
            let Some(location) = &unreadable.location else {
                continue;
            };
            match self.marked_dead(location, unreadable) {
                Ok(batch) => {
                    let key = &location.partition_key;
                    // The next sweep finds the message again, unless it was repaired.
                    if let Err(error) = self
                        .container
                        .in_time(key, self.container.execute(&batch))
                        .await
                    {
                        tracing::debug!(%error, "an unreadable message was not marked as dead; the next sweep tries again");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "an unreadable message cannot be marked as dead");
                }
            }
        }
    }

    fn marked_dead(
        &self,
        location: &Location,
        unreadable: &Unreadable,
    ) -> Result<Batch<Work>, cdb_model::operation::BatchError> {
        let marked = Patch::<WorkMessage>::new()
            .set(WorkMessage::WAITING_SINCE, None)
            .set(WorkMessage::DEAD_SINCE, Some(self.container.now()))
            .set(WorkMessage::LAST_FAILURE, Some(unreadable.to_string()));
        let mut batch = Batch::<Work>::new(&location.partition_key);
        batch.add(marked.at(location.address()))?;
        Ok(batch)
    }
}
