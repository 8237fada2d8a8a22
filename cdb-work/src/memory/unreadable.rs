//! Unreadable documents of the work: logs them, and keeps them from blocking other streams.
//!
//! An unreadable message that waits is set aside with the reason, like a message that failed too
//! often. It holds only its own stream. Its id and its readable fields suffice to discard it.

use cdb_model::stored::{Location, Unreadable};
use cdb_model::{Batch, DocumentKey as _, Patch};
use serde::Deserialize;
use serde_json::Value;

use super::inner::Inner;
use crate::streams::documents::{Work, WorkMessage, WorkMessageKey, WorkStreamKey};
use crate::streams::status::WorkStatus;
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

/// The readable fields of a message that was set aside; its body is the whole document. `None`
/// without a position in a stream.
pub(crate) fn partial(unreadable: &Unreadable) -> Option<WorkMessage> {
    let location = unreadable.location.as_ref()?;
    let WorkMessageKey {
        partition,
        lane,
        stream,
        message_id,
    } = WorkMessageKey::parse(location.id.as_str()).ok()?;
    let document: Value = serde_json::from_str(&unreadable.json).ok()?;
    Some(WorkMessage {
        partition,
        lane,
        stream,
        message_id,
        sequence: field(&document, "sequence")?,
        waiting_since: None,
        due_at: field(&document, "dueAt").unwrap_or_default(),
        retrying: field(&document, "retrying").unwrap_or_default(),
        dead_since: field(&document, "deadSince").flatten(),
        status: field(&document, "status").unwrap_or(WorkStatus::STORED),
        needs: field(&document, "needs").unwrap_or(WorkStatus::STORED),
        attempts: field(&document, "attempts").unwrap_or_default(),
        started_under: None,
        last_failure: Some(unreadable.to_string()),
        kind: field(&document, "kind").unwrap_or_default(),
        context: field(&document, "context").unwrap_or_default(),
        body: unreadable.json.clone(),
        token: String::new(),
        ttl: None,
    })
}

fn field<'v, T: Deserialize<'v>>(document: &'v Value, name: &str) -> Option<T> {
    T::deserialize(document.get(name)?).ok()
}

impl Inner {
    /// Sets waiting messages aside that cannot be read.
    pub(crate) async fn set_unreadable_aside(&self, messages: &[Unreadable]) {
        for unreadable in messages {
            report(unreadable);
            let Some(location) = &unreadable.location else {
                continue;
            };
            match self.aside(location, unreadable) {
                Ok(batch) => {
                    let key = &location.partition_key;
                    // The next sweep finds the message again, unless it was repaired.
                    if let Err(error) = self
                        .container
                        .in_time(key, self.container.execute(&batch))
                        .await
                    {
                        tracing::debug!(%error, "an unreadable message was not set aside; the next sweep tries again");
                    }
                }
                Err(error) => tracing::warn!(%error, "an unreadable message cannot be set aside"),
            }
        }
    }

    fn aside(
        &self,
        location: &Location,
        unreadable: &Unreadable,
    ) -> Result<Batch<Work>, cdb_model::operation::BatchError> {
        let aside = Patch::<WorkMessage>::new()
            .set(WorkMessage::WAITING_SINCE, None)
            .set(WorkMessage::DEAD_SINCE, Some(self.container.now()))
            .set(WorkMessage::LAST_FAILURE, Some(unreadable.to_string()));
        let mut batch = Batch::<Work>::new(&location.partition_key);
        batch.add(aside.at(location.address()))?;
        Ok(batch)
    }
}
