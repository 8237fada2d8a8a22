//! What operators do: look at messages that were set aside, bring them back or discard them, forget streams at rest.
//!
//! Every step is a conditional write of its own. Messages can be brought back or discarded from anywhere: the holder of
//! the partition notices with its next sweep.

use std::time::Duration;

use cdb_model::{Batch, Filter, Patch, Query};

use super::coordinator::WorkCoordinator;
use super::documents::{Work, WorkMessage, WorkStream};
use super::error::WorkError;
use super::plan::{message_key, stream_key};
use super::status::WorkStatus;
use super::stream_order::StreamKey;
use super::unreadable::remains;

impl WorkCoordinator {
    /// Messages that failed too often and hold their streams, with the reason of the last failure. Those that somebody has
    /// spoiled so that they cannot be read are among them, as far as they can be told; their body is the whole document.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn set_aside(&self, most: u32) -> Result<Vec<WorkMessage>, WorkError> {
        let query = Query::<WorkMessage>::across_partitions()
            .filter(WorkMessage::DEAD_SINCE.is_defined())
            .order_by(WorkMessage::DEAD_SINCE.asc())
            .top(most);
        let rows = self.inner.container.query(query).row_by_row().all().await?;
        let messages = rows.into_iter().filter_map(|row| match row {
            Ok(row) => Some(row.document),
            Err(unreadable) => remains(&unreadable),
        });
        Ok(messages
            .filter(|message| message.dead_since.is_some())
            .collect())
    }

    /// Has a message that was set aside tried again, with all its attempts before it.
    ///
    /// # Errors
    /// [`WorkError::NotSetAside`] when it is not, or not any more.
    pub async fn redrive(&self, message: &WorkMessage) -> Result<(), WorkError> {
        let container = &self.inner.container;
        let now = container.now();
        let patch = Patch::<WorkMessage>::new()
            .set(WorkMessage::WAITING_SINCE, Some(now))
            .set(WorkMessage::DUE_AT, now)
            .set(WorkMessage::ATTEMPTS, 0)
            .set(WorkMessage::DEAD_SINCE, None)
            .when(is_set_aside(message));
        let patched = container.patch(&message_key(message), &patch).await;
        refused(patched.map(drop), message)
    }

    /// Ends a message that was set aside without working on it: its stream goes on.
    ///
    /// # Errors
    /// [`WorkError::NotSetAside`] when it is not, or not any more.
    pub async fn discard(&self, message: &WorkMessage) -> Result<(), WorkError> {
        let key = StreamKey::new(message.lane, &message.stream);
        let ended = Patch::<WorkMessage>::new()
            .set(WorkMessage::STATUS, message.status | WorkStatus::SKIPPED)
            .set(WorkMessage::BODY, String::new())
            .set(WorkMessage::DEAD_SINCE, None)
            .set(WorkMessage::TTL, Some(self.inner.config.remember_seconds()))
            .when(is_set_aside(message));
        let next = Patch::<WorkStream>::new()
            .set(WorkStream::DONE, message.sequence)
            .set(WorkStream::TOUCHED, self.inner.container.now())
            .when(WorkStream::DONE.eq(message.sequence - 1));
        let mut batch = Batch::<Work>::new(message.partition.as_str());
        batch.patch(&message_key(message), &ended)?;
        batch.patch(&stream_key(&key, &message.partition), &next)?;
        let executed = self.inner.container.execute(&batch).await;
        refused(executed.map(drop), message)
    }

    /// Deletes the documents of streams that have no message left and were at rest for so long, up to 99 in each partition
    /// that this coordinator holds. A stream that comes back begins anew. Returns how many were deleted. The coordinator does
    /// so by itself too, see [`WorkConfig::forget`](super::WorkConfig::forget).
    ///
    /// At rest means at least as long as ended messages are remembered: otherwise their duplicates would be taken for new
    /// messages.
    ///
    /// # Errors
    /// When they cannot be read or deleted.
    pub async fn forget_streams(&self, at_rest: Duration) -> Result<usize, WorkError> {
        let before = self.inner.container.now() - at_rest.max(self.inner.config.remember);
        let mut forgotten = 0;
        for partition in self.partitions() {
            forgotten += self.inner.forget_in(partition, before).await?;
        }
        Ok(forgotten)
    }
}

/// The very time at which it was set aside: not any later one.
fn is_set_aside(message: &WorkMessage) -> Filter<WorkMessage> {
    match message.dead_since {
        Some(since) => WorkMessage::DEAD_SINCE.eq(since),
        None => Filter::none(),
    }
}

fn refused(result: Result<(), cdb_client::Error>, message: &WorkMessage) -> Result<(), WorkError> {
    match result {
        Err(error) if error.is_precondition_failed() || error.is_not_found() => {
            Err(WorkError::NotSetAside {
                message_id: message.message_id.clone(),
            })
        }
        other => Ok(other?),
    }
}
