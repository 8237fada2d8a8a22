//! Operations for administrators on a coordinator: those of [`WorkAdmin`], and the deletion of idle
//! streams.

use std::time::Duration;

use cdb_client::retry::within_deadline;

use super::admin::WorkAdmin;
use super::handle::WorkCoordinator;
use crate::error::WorkError;
use crate::streams::documents::WorkMessage;

impl WorkCoordinator {
    /// The failed messages of the container.
    pub fn admin(&self) -> WorkAdmin {
        let inner = &self.inner;
        WorkAdmin::new(inner.container.clone()).remember(inner.config.remember)
    }

    /// Returns the first page of [`WorkAdmin::dead_letters`].
    ///
    /// # Errors
    /// When the query fails.
    pub async fn dead_letters(&self, most: u32) -> Result<Vec<WorkMessage>, WorkError> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(self.admin().dead_letters(most, None).await?.rows)
    }

    /// As [`WorkAdmin::redrive`].
    ///
    /// # Errors
    /// [`WorkError::NotDead`] when the message is not dead, or no longer.
    pub async fn redrive(&self, message: &WorkMessage) -> Result<(), WorkError> {
        self.admin().redrive(message).await
    }

    /// As [`WorkAdmin::discard`].
    ///
    /// # Errors
    /// [`WorkError::NotDead`] when the message is not dead, or no longer.
    pub async fn discard(&self, message: &WorkMessage) -> Result<(), WorkError> {
        self.admin().discard(message).await
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
            let forget = self.inner.forget_in(partition, before);
            forgotten += within_deadline(self.inner.container.deadline(), forget).await?;
        }
        Ok(forgotten)
    }
}
