//! Operations for administrators: list messages that are set aside, redrive or discard them, delete
//! idle streams.
//!
//! Every operation is one conditional write. Any coordinator may redrive or discard a message; the
//! holder of its partition notices with its next sweep.

use std::time::Duration;

use cdb_model::{Batch, Filter, Patch, Query, Timestamp};

use super::handle::WorkCoordinator;
use crate::error::WorkError;
use crate::memory::plan::{message_key, stream_key};
use crate::memory::unreadable::partial;
use crate::streams::documents::{Work, WorkMessage, WorkStream};
use crate::streams::status::WorkStatus;
use crate::streams::stream::StreamKey;

impl WorkCoordinator {
    /// Returns messages that failed too often and hold their streams, with the reason of the last
    /// failure. An unreadable message has the fields that can be read, and the whole document as
    /// its body.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn set_aside(&self, most: u32) -> Result<Vec<WorkMessage>, WorkError> {
        let query = Query::<WorkMessage>::across_partitions()
            // Not `is_defined`: null, which is also the value after a decision, comes first.
            .filter(WorkMessage::DEAD_SINCE.gt(Timestamp::default()))
            .order_by(WorkMessage::DEAD_SINCE.asc())
            .limit(most);
        let rows = self.inner.container.query(query).row_by_row().all().await?;
        let messages = rows.into_iter().filter_map(|row| match row {
            Ok(row) => Some(row.document),
            Err(unreadable) => partial(&unreadable),
        });
        Ok(messages
            .filter(|message| message.dead_since.is_some())
            .collect())
    }

    /// Retries a message that was set aside, with all its attempts.
    ///
    /// # Errors
    /// [`WorkError::NotSetAside`] when the message is not set aside, or no longer.
    pub async fn redrive(&self, message: &WorkMessage) -> Result<(), WorkError> {
        let container = &self.inner.container;
        let now = container.now();
        let patch = Patch::<WorkMessage>::new()
            .set(WorkMessage::WAITING_SINCE, Some(now))
            .set(WorkMessage::DUE_AT, now)
            .set(WorkMessage::ATTEMPTS, 0)
            .set(WorkMessage::STARTED_UNDER, None)
            .set(WorkMessage::DEAD_SINCE, None)
            .when(is_set_aside(message));
        let patched = container.run(patch.at(&message_key(message))).await;
        refused(patched.map(drop), message)
    }

    /// Completes a message that was set aside without handling it: its stream goes on.
    ///
    /// # Errors
    /// [`WorkError::NotSetAside`] when the message is not set aside, or no longer.
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
        batch.add(ended.at(&message_key(message)))?;
        batch.add(next.at(&stream_key(&key, &message.partition)))?;
        let executed = self.inner.container.execute(&batch).await;
        refused(executed.map(drop), message)
    }

    /// Deletes the documents of streams without messages that were idle for `at_rest`, up to 99 in
    /// each partition that this coordinator holds. A later message starts the stream again. Returns
    /// how many were deleted. [`WorkConfig::forget`](crate::WorkConfig::forget) does the same at
    /// intervals.
    ///
    /// `at_rest` counts as at least the time that completed messages are remembered. Otherwise
    /// their duplicates would count as new messages.
    ///
    /// # Errors
    /// When the query or a deletion fails.
    pub async fn forget_streams(&self, at_rest: Duration) -> Result<usize, WorkError> {
        let before = self.inner.container.now() - at_rest.max(self.inner.config.remember);
        let mut forgotten = 0;
        for partition in self.partitions() {
            forgotten += self.inner.forget_in(partition, before).await?;
        }
        Ok(forgotten)
    }
}

/// Matches the time at which the message was set aside, not a later one.
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
