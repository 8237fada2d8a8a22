//! Documents of the work that cannot be read: reported, and kept from standing in the way of everything else.
//!
//! A message that waits and cannot be read is set aside with the reason, like one that failed too often: it holds its stream,
//! and no other. What its id and its readable fields tell is enough to discard it.

use cdb_model::{Batch, DocumentKey as _, Location, Patch, Unreadable};
use serde::Deserialize;
use serde_json::Value;

use super::documents::{Work, WorkMessage, WorkMessageKey, WorkStreamKey};
use super::inner::Inner;
use super::status::WorkStatus;
use super::stream_order::StreamKey;
use super::telemetry;

/// Says that a document cannot be read.
pub(super) fn report(unreadable: &Unreadable) {
    telemetry::unreadable();
    tracing::error!(%unreadable, "a document of the work cannot be read");
}

/// The stream whose document it is, by its id.
pub(super) fn stream_of(unreadable: &Unreadable) -> Option<StreamKey> {
    let id = unreadable.location.as_ref()?.id.as_str();
    let key = WorkStreamKey::parse(id).ok()?;
    Some(StreamKey::new(key.lane, &key.stream))
}

/// The stream and the name of the message whose document it is, by its id.
pub(super) fn message_of(unreadable: &Unreadable) -> Option<(StreamKey, String)> {
    let id = unreadable.location.as_ref()?.id.as_str();
    let key = WorkMessageKey::parse(id).ok()?;
    Some((StreamKey::new(key.lane, &key.stream), key.message_id))
}

/// A message that was set aside and cannot be read, as far as it can be told; its body is the document as it was found.
/// `None` without a place in a stream.
pub(super) fn remains(unreadable: &Unreadable) -> Option<WorkMessage> {
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
        dead_since: field(&document, "deadSince")?,
        status: field(&document, "status").unwrap_or(WorkStatus::STORED),
        needs: field(&document, "needs").unwrap_or(WorkStatus::STORED),
        attempts: field(&document, "attempts").unwrap_or_default(),
        last_failure: Some(unreadable.to_string()),
        kind: field(&document, "kind").unwrap_or_default(),
        body: unreadable.json.clone(),
        token: String::new(),
        ttl: None,
    })
}

fn field<'v, T: Deserialize<'v>>(document: &'v Value, name: &str) -> Option<T> {
    T::deserialize(document.get(name)?).ok()
}

impl Inner {
    /// Sets messages aside that were found waiting and cannot be read.
    pub(super) async fn set_unreadable_aside(&self, messages: &[Unreadable]) {
        for unreadable in messages {
            report(unreadable);
            let Some(location) = &unreadable.location else {
                continue;
            };
            match self.aside(location, unreadable) {
                Ok(batch) => {
                    // The next sweep finds it again, unless somebody has mended it.
                    if let Err(error) = self.container.execute(&batch).await {
                        tracing::debug!(%error, "an unreadable message was not set aside");
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
    ) -> Result<Batch<Work>, cdb_model::BatchError> {
        let aside = Patch::<WorkMessage>::new()
            .set(WorkMessage::WAITING_SINCE, None)
            .set(WorkMessage::DEAD_SINCE, Some(self.container.now()))
            .set(WorkMessage::LAST_FAILURE, Some(unreadable.to_string()));
        let mut batch = Batch::<Work>::new(&location.partition_key);
        batch.patch_at(location, &aside)?;
        Ok(batch)
    }
}
